package fetch

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ebbhq/ebb/store/memory"
)

// A server fetches by order, refuses what it cannot do, and retries.
func TestService(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page/1" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		html(w, "%s", r.URL.Path)
	})
	m := memory.New(memory.Config{})
	defer m.Close()
	v := NewService(ServiceConfig{Store: m, Settings: Settings{Dir: t.TempDir()}, Clock: twentyfold()})
	if _, err := v.Start(t.Context(), Order{Name: "votes", URLs: pagesOf(s.URL, 3)}); err == nil {
		t.Error("a server that is not at work took an order")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	f := started(t, v, Order{Name: "votes", URLs: pagesOf(s.URL, 3)})
	if _, err := v.Start(t.Context(), Order{Name: "votes", URLs: pagesOf(s.URL, 3)}); err != nil && !errors.Is(err, ErrBusy) {
		t.Errorf("a second one at once: %v", err)
	}
	for _, bad := range []Order{{Name: "../x", URLs: []string{"http://x/"}}, {Name: "x"}, {Name: "x", URLs: []string{"http://x/"}, Policy: "bogus"}} {
		if _, err := v.Start(t.Context(), bad); !errors.Is(err, ErrOrder) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	f = ends(t, v, f.ID)
	if want := (Tally{Input: 3, OK: 2, Permanent: 1}); *f.Tally != want {
		t.Errorf("tally %+v, want %+v", *f.Tally, want)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := NewService(ServiceConfig{Store: m}).Start(t.Context(), Order{Name: "x", URLs: []string{"http://x/"}}); !errors.Is(err, ErrNoDir) {
		t.Errorf("without a directory: %v", err)
	}
}

// started starts a fetch once the service is at work.
func started(t *testing.T, v *Service, o Order) Fetch {
	t.Helper()
	for {
		f, err := v.Start(t.Context(), o)
		if err == nil {
			return f
		}
		v.mu.Lock()
		ready := v.life != nil
		v.mu.Unlock()
		if ready && !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		pause(t)
	}
}

// ends waits until the fetch has ended.
func ends(t *testing.T, v *Service, id string) Fetch {
	t.Helper()
	for {
		f, err := v.Fetch(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if f.Phase == Ended && f.Tally != nil && f.Tally.Pending == 0 {
			return f
		}
		pause(t)
	}
}

// pause waits for others to get on.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(time.Millisecond):
	case <-t.Context().Done():
		t.Fatal("nothing happened")
	}
}
