package console_test

import (
	"strings"
	"testing"

	"github.com/ebbhq/ebb/console"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store/memory"
	"github.com/ebbhq/ebb/work/fetch"
	"github.com/ebbhq/ebb/work/fetch/input"

	"github.com/ebbhq/ebb/clock"
)

func TestNoFetchesNoPages(t *testing.T) {
	s := open(t)
	s.page(404, "/fetches")
	if text := s.page(200, "/"); strings.Contains(text, `href="/fetches"`) {
		t.Error("the navigation leads nowhere")
	}
}

// A fetch that waits to begin, on the list and on its own page.
func TestFetchPages(t *testing.T) {
	c := clock.NewFake(t0)
	keeps := memory.New(memory.Config{Clock: c})
	service := fetch.NewService(fetch.ServiceConfig{Store: keeps})
	s := over(t, keeps, c, func(config *console.Config) { config.Fetches = service })
	s.page(200, "/fetches", "No fetch yet")
	r, err := fetch.Open(t.Context(), fetch.Options{Store: keeps, Name: "votes", Policy: policy.MustPreset("polite"), Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Load(t.Context(), func(yield func(input.Item, error) bool) {
		for _, u := range []string{"https://example.org/a", "https://example.org/b"} {
			if !yield(input.Item{URL: u}, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.page(200, "/fetches", "votes.000001", "passing", "polite", `aria-current="page">Fetches`)
	s.page(200, "/fetches/votes.000001", "0 of 2 pages are here", "pending", "/jobs?batch=votes.000001")
	s.page(404, "/fetches/none.000001", "There is no such fetch.")
}
