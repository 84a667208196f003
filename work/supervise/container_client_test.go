package supervise

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A daemon that goes away in the middle of a log and comes back: each byte is
// copied once, also where the cut was inside a frame.
func TestContainerLogsAreCopiedOnce(t *testing.T) {
	var all bytes.Buffer
	for i := range 50 {
		text := fmt.Sprintf("line %d of a stream\n", i)
		head := [8]byte{byte(1 + i%2)}
		binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
		all.Write(head[:])
		all.WriteString(text)
	}
	socket := filepath.Join(t.TempDir(), "d.sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/"+apiVersion+"/containers/c1/logs" {
			http.Error(w, `{"message":"no such container"}`, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(all.Len()))
		_, _ = w.Write(all.Bytes()[:min(all.Len(), int(calls.Add(1))*333)])
	}))
	_ = s.Listener.Close()
	s.Listener = listener
	s.Start()
	t.Cleanup(s.Close)
	d := dial(socket)
	var out, errs bytes.Buffer
	var copied [2]int64
	for range 100 {
		if err = d.logs(t.Context(), "c1", [2]io.Writer{&out, &errs}, &copied); err == nil {
			break
		}
	}
	if err != nil || calls.Load() < 3 {
		t.Fatalf("%d calls: %v", calls.Load(), err)
	}
	var want [2]strings.Builder
	for i := range 50 {
		fmt.Fprintf(&want[i%2], "line %d of a stream\n", i)
	}
	if out.String() != want[0].String() || errs.String() != want[1].String() {
		t.Errorf("got %q and %q", out.String(), errs.String())
	}
	if _, err := d.inspect(t.Context(), "gone"); statusOf(err) != http.StatusNotFound || !strings.Contains(err.Error(), "no such container") {
		t.Errorf("%v", err)
	}
	if _, err := dial(socket+".none").inspect(t.Context(), "c1"); err == nil || statusOf(err) != 0 {
		t.Errorf("a daemon that is not there: %v", err)
	}
}

func TestContainerSpecIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"{image: zimit}": "",
		"{image: zimit, memory: 2GB, mounts: ['/srv:/out:ro']}": "",
		"{network: host}":               "container.image: name the image",
		"{image: zimit, mounts: [out]}": `container.mounts[0]: "out": HOST:CONTAINER`,
		"{image: zimit, cpus: -1}":      "neither may be negative",
		"{image: zimit, pull: true}":    `unknown field "pull"`,
	} {
		_, err := Parse("c.yaml", []byte("version: 1\ncommand: [zimit, --url, https://example.org/]\ncontainer: "+text+"\n"), "/srv")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
