package demo

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The demonstration shows what it claims: three tries lose pages, waves none.
func TestDemo(t *testing.T) {
	var out strings.Builder
	if err := Run(t.Context(), Options{Out: &out, Speed: 120, Seed: 1}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text := out.String()
	lost := regexp.MustCompile(`lost +(\d+) of 882`).FindAllStringSubmatch(text, -1)
	if len(lost) != 2 {
		t.Fatalf("no result in:\n%s", text)
	}
	tries, _ := strconv.Atoi(lost[0][1])
	waves, _ := strconv.Atoi(lost[1][1])
	if tries == 0 || waves != 0 {
		t.Errorf("three tries lost %d, waves lost %d:\n%s", tries, waves, text)
	}
	if !strings.Contains(text, "38 succeeded after") || !strings.Contains(text, "2 failed at once for a broken schema (0 retries), 0 lost") {
		t.Errorf("documents were lost:\n%s", text)
	}
	if !strings.Contains(text, "builtin/server of policy processing") {
		t.Errorf("why is not explained:\n%s", text)
	}
	for _, id := range []string{"floor", "jitter", "growth", "window", "refused"} {
		if !strings.Contains(text, id) {
			t.Errorf("no word of %q in:\n%s", id, text)
		}
	}
}
