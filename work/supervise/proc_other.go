//go:build !linux

package supervise

import (
	"errors"
	"os"
	"syscall"
)

// errPlatform is the answer of every call here: what tells one process from
// another beyond doubt is read from Linux's /proc.
var errPlatform = errors.New("supervise: runs need Linux")

func bootID() (string, error)               { return "", errPlatform }
func hostID() string                        { name, _ := os.Hostname(); return name }
func identify(int) (Identity, error)        { return Identity{}, errPlatform }
func oomKills() int64                       { return 0 }
func signalGroup(int, syscall.Signal) error { return errPlatform }
func groupLives(int) bool                   { return false }
func tryLock(string) (*os.File, error)      { return nil, errPlatform }
func freeBytes(string) (int64, error)       { return 0, errPlatform }
func freeMemory() (int64, error)            { return 0, errPlatform }
func mounted(string) bool                   { return false }
func holders(string) []int                  { return nil }
func commandLine(int) string                { return "" }

func (a *attempt) unnamed() (Identity, bool) { return Identity{}, false }

// Alive reports whether exactly this process lives.
func (id Identity) Alive() bool { return false }

// Child runs an attempt's command.
func Child(string) error { return errPlatform }

func detached() *syscall.SysProcAttr { return nil }
