package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestScrape(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/a" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "a page")
	}))
	defer site.Close()
	lost, err := scrape(t.Context(), []string{site.URL + "/a", site.URL + "/gone"})
	if err != nil || lost != 1 {
		t.Errorf("%d lost, %v; want the one that is not there", lost, err)
	}
}
