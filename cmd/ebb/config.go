package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/fetch"
)

// defaultConfig is read where it exists and no other is named.
const defaultConfig = "ebb.yaml"

// settings is the configuration file.
type settings struct {
	// Policies is the policy file, relative to the configuration file.
	Policies string `yaml:"policies"`
	// DB is the store: sqlite:PATH, relative to the configuration file, or
	// postgres://…
	DB string `yaml:"db"`
	// KeyFile has the key that encrypts secrets, relative to the configuration
	// file.
	KeyFile string `yaml:"key_file"`
	// Supervise is how runs are supervised.
	Supervise superviseSettings `yaml:"supervise"`
	// Webhook is how webhooks are sent.
	Webhook webhookSettings `yaml:"webhook"`
	// Document is how documents are processed.
	Document document.Settings `yaml:"document"`
	// Fetch is where the server keeps what it fetches.
	Fetch fetch.Settings `yaml:"fetch"`
}

// settings reads the configuration file; a missing default one is empty.
func (a *app) settings() (settings, error) {
	s, _, err := a.configured()
	return s, err
}

// configPath is the configuration file and who named it; from is empty where
// nobody did.
func (a *app) configPath() (path, from string) {
	if a.config != "" {
		return a.config, "--config"
	}
	if env, _ := a.lookup("EBB_CONFIG"); env != "" {
		return env, "EBB_CONFIG"
	}
	return defaultConfig, ""
}

// configured reads the configuration file with the place of each value.
func (a *app) configured() (settings, []placed, error) {
	path, from := a.configPath()
	src, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && from == "" {
		return settings{}, nil, nil
	}
	if err != nil {
		return settings{}, nil, usage(fmt.Errorf("config: %w", err), "ebb --config FILE …")
	}
	var s settings
	values, err := decodeStrict(path, src, &s)
	if err != nil {
		return settings{}, nil, usage(fmt.Errorf("config: %w", err), "the keys are: "+strings.Join(keysOf(reflect.TypeFor[settings]()), ", "))
	}
	beside := func(at string) string {
		if at == "" || filepath.IsAbs(at) {
			return at
		}
		return filepath.Join(filepath.Dir(path), at)
	}
	s.Policies, s.KeyFile, s.Fetch.Dir = beside(s.Policies), beside(s.KeyFile), beside(s.Fetch.Dir)
	if at, ok := strings.CutPrefix(s.DB, "sqlite:"); ok {
		s.DB = "sqlite:" + beside(at)
	}
	return s, values, nil
}
