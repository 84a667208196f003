package console_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Text has a contrast of 4.5 to what is behind it, borders of fields and the
// mark of the focus 3, in light and dark (WCAG 2.2, AA).
func TestContrast(t *testing.T) {
	css, err := os.ReadFile("asset/console.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, ok := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("no dark colours")
	}
	dark, _, _ = strings.Cut(dark, "* { box-sizing")
	pairs := []struct {
		text, behind string
		least        float64
	}{
		{"ink", "paper", 4.5},
		{"ink", "card", 4.5},
		{"ink", "grid", 4.5},
		{"soft", "paper", 4.5},
		{"soft", "card", 4.5},
		{"c0", "paper", 4.5},
		{"c0", "card", 4.5},
		{"onpress", "press", 4.5},
		{"bad", "badpaper", 4.5},
		{"bad", "card", 4.5},
		{"bad", "paper", 4.5},
		{"good", "goodpaper", 4.5},
		{"warn", "warnpaper", 4.5},
		{"busy", "busypaper", 4.5},
		{"still", "stillpaper", 4.5},
		{"bandname", "paper", 4.5},
		{"field", "paper", 3},
		{"c2", "paper", 3},
		{"c2", "card", 3},
		{"c1", "paper", 3},
	}
	for mode, text := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z0-9]+): #([0-9a-f]{3,6});`).FindAllStringSubmatch(text, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, p := range pairs {
			a, okA := colours[p.text]
			b, okB := colours[p.behind]
			if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); !okA || !okB || got < p.least {
				t.Errorf("%s: %s on %s: contrast %.2f, want %.1f", mode, p.text, p.behind, got, p.least)
			}
		}
	}
}

// luminance is that of WCAG for a colour in hex.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
