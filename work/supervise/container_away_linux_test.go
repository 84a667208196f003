package supervise

import (
	"path/filepath"
	"testing"
)

// A daemon that does not answer is waited for, and costs no restart.
func TestContainerWithoutADaemonWaits(t *testing.T) {
	k := newKit(t)
	spec := k.shell("exit 0")
	spec.Container = &Container{Image: "crawler", Socket: filepath.Join(k.dir, "none.sock")}
	k.submit(spec)
	r := k.work(func(r Run) bool { return len(r.Restarts) > 0 })
	if got := r.Restarts[0]; got.Class != "local_io" || got.Reason != "machine" || got.Counted != "apart" || r.RestartsUsed != 0 || r.RestartsLeft != 20 {
		t.Fatalf("%+v", r)
	}
}
