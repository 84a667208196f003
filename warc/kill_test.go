package warc_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/warc"
)

// childDir tells the test's program that it is to write there until it is
// killed.
const childDir = "EBB_WARC_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeForEver(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForEver prints each URL once its exchange is written.
func writeForEver(dir string) error {
	w, err := warc.Create(warc.Options{Dir: dir, Prefix: "child", MaxBytes: 20_000})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		url := fmt.Sprintf("http://a/%d", i)
		if _, err := w.Exchange(page(url, strings.Repeat(url, i%400))); err != nil {
			return err
		}
		if _, err := fmt.Println(url); err != nil {
			return err
		}
	}
}

// A writer that is killed leaves files that are repaired to hold all that it
// had acknowledged.
func TestKilledWriterLosesNothing(t *testing.T) {
	for _, acks := range []int{1, 2, 40, 333} {
		dir := t.TempDir()
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := make(map[string]bool)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			acknowledged[lines.Text()] = true
			if len(acknowledged) == acks {
				if all, err := warc.Recover(dir, "child", nil); err != nil || len(all) != 0 {
					t.Errorf("files of a living writer were recovered: %+v, %v", all, err)
				}
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := child.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		if _, err := warc.Recover(dir, "child", nil); err != nil {
			t.Fatal(err)
		}
		written := 0
		for _, name := range list(t, dir) {
			if !strings.HasSuffix(name, ".warc.gz") {
				t.Errorf("left behind: %s", name)
			}
			_, err := warc.Index(filepath.Join(dir, name), func(e warc.Entry) error {
				written++
				delete(acknowledged, e.URL)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		if len(acknowledged) != 0 || written < acks {
			t.Errorf("%d pages are there, missing of those acknowledged: %v", written, acknowledged)
		}
	}
}
