package demo

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/work/supervise"
)

// TestMain lets the test binary be the wrapper of supervised commands.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "supervise-child" {
		if supervise.Child(os.Args[2]) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var lost = regexp.MustCompile(`(?m)^    lost     (\d+); (.*)$`)

// The demonstration shows what it claims: nothing is lost under the presets,
// and what caused the incidents lost work.
func TestDemo(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = Run(t.Context(), Options{Out: &out, Seed: 1, Self: []string{self, "supervise-child"}, size: size{pages: 300, documents: 12, events: 6}})
	text := out.String()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	rows := lost.FindAllStringSubmatch(text, -1)
	if len(rows) != 4 {
		t.Fatalf("%d rows in:\n%s", len(rows), text)
	}
	for _, row := range rows {
		if row[1] != "0" {
			t.Errorf("a preset lost %s (%s):\n%s", row[1], row[2], text)
		}
	}
	before := regexp.MustCompile(`(?m)^    before   (\d+) lost`).FindAllStringSubmatch(text, -1)
	total := 0
	for _, row := range before {
		n, _ := strconv.Atoi(row[1])
		total += n
	}
	if len(before) != 4 || total < 20 {
		t.Errorf("the policies that caused the incidents lost %d in all:\n%s", total, text)
	}
	for _, word := range []string{"floor", "jitter", "growth", "window", "refused", "2 refused at once for their schema", "6 dead letters of the dead endpoint were kept"} {
		if !strings.Contains(text, word) {
			t.Errorf("no word of %q in:\n%s", word, text)
		}
	}
}

func TestParts(t *testing.T) {
	if err := Run(t.Context(), Options{Out: new(strings.Builder), Parts: []string{"nothing"}}); err == nil || !strings.Contains(err.Error(), "pages, documents, webhooks and crawl") {
		t.Errorf("an unknown part: %v", err)
	}
	if err := Run(t.Context(), Options{Out: new(strings.Builder), Speed: 0.5}); err == nil {
		t.Error("policy time slower than the machine's was taken")
	}
}
