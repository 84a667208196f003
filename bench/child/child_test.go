package child

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	in := strings.NewReader(`{"op":"drain","n":3}` + "\n" + `{"op":"nonsense"}` + "\n" + `{"op":"close"}` + "\n" + `{"op":"late"}` + "\n")
	var out bytes.Buffer
	var ops []string
	err := Serve(in, &out, func(r Request) (Answer, error) {
		ops = append(ops, r.Op)
		if r.Op == "nonsense" {
			return Answer{}, errors.New("unknown")
		}
		return Answer{Seconds: float64(r.N)}, nil
	})
	want := `{"seconds":3}` + "\n" + `{"seconds":0,"error":"unknown"}` + "\n" + `{"seconds":0}` + "\n"
	if err != nil || out.String() != want {
		t.Errorf("answers %q, %v; want %q", out.String(), err, want)
	}
	if got := strings.Join(ops, " "); got != "drain nonsense close" {
		t.Errorf("handled %q, want nothing after close", got)
	}
}
