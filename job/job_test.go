package job

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFormatID(t *testing.T) {
	for _, c := range []struct {
		seq  int64
		want string
	}{
		{0, "0000000000000"},
		{1, "0000000000001"},
		{31, "000000000000z"},
		{32, "0000000000010"},
		{1_000_000, "000000000ygj0"},
		{math.MaxInt64, "7zzzzzzzzzzzz"},
	} {
		if got := FormatID(c.seq); got != c.want {
			t.Errorf("FormatID(%d) = %q, want %q", c.seq, got, c.want)
		}
		j := Job{Seq: c.seq}
		if got := j.ID(); got != c.want {
			t.Errorf("the id of %d is %q, want %q", c.seq, got, c.want)
		}
		if got, err := ParseID(c.want); err != nil || got != c.seq {
			t.Errorf("ParseID(%q) = %d, %v", c.want, got, err)
		}
		if got, err := ParseID(strings.ToUpper(c.want)); err != nil || got != c.seq {
			t.Errorf("ParseID of %q in capitals = %d, %v", c.want, got, err)
		}
	}
}

// What the ledger tells beyond the job as it was read is not known.
func TestKnown(t *testing.T) {
	ledger := []Attempt{{Start: 1, Epoch: 1}, {Start: 2, Epoch: 3}, {Start: 3, Epoch: 4}}
	for _, c := range []struct {
		state State
		epoch int64
		want  int
	}{
		{Queued, 0, 0},
		{Running, 1, 0},
		{Queued, 1, 1},
		{Running, 2, 1},
		{Queued, 2, 1},
		{Running, 3, 1},
		{Parked, 3, 2},
		{Running, 4, 2},
		{Failed, 4, 3},
		{Running, 5, 3},
		{Succeeded, 5, 3},
	} {
		j := Job{State: c.state, Epoch: c.epoch}
		if got := j.Known(ledger); len(got) != c.want {
			t.Errorf("%s at epoch %d: %d rows, want %d", c.state, c.epoch, len(got), c.want)
		}
	}
}

func TestParseIDRefuses(t *testing.T) {
	for _, id := range []string{
		"", "1", "00000000000000", "000000000000", "000000000000i", "000000000000l", "000000000000o", "000000000000u",
		"8000000000000", "zzzzzzzzzzzzz", "000000000000-", "00000000000\u00fc", "000000000000 ",
	} {
		if seq, err := ParseID(id); err == nil {
			t.Errorf("ParseID(%q) = %d, want an error", id, seq)
		} else if !strings.HasPrefix(err.Error(), "job: id ") {
			t.Errorf("ParseID(%q): %v does not say what it is about", id, err)
		}
	}
}

// Ids sort as their numbers do, and come back as what they were.
func TestIDProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Min(0).Draw(t, "a")
		b := rapid.Int64Min(0).Draw(t, "b")
		x, y := FormatID(a), FormatID(b)
		if (a < b) != (x < y) || (a == b) != (x == y) {
			t.Fatalf("%d and %d are %q and %q", a, b, x, y)
		}
		if back, err := ParseID(x); err != nil || back != a {
			t.Fatalf("%q came back as %d, %v", x, back, err)
		}
	})
}

func FuzzParseID(f *testing.F) {
	for _, id := range []string{"0000000000000", "7zzzzzzzzzzzz", "8000000000000", "", "000000000000I"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		seq, err := ParseID(id)
		if err != nil {
			return
		}
		if seq < 0 || FormatID(seq) != strings.ToLower(id) {
			t.Fatalf("%q was read as %d, which is written %q", id, seq, FormatID(seq))
		}
	})
}

// Every id is URL-safe: lower-case letters and digits that cannot be mistaken
// for one another.
func TestAlphabet(t *testing.T) {
	if len(alphabet) != 32 || !slices.IsSorted([]byte(alphabet)) {
		t.Errorf("%d characters, sorted %t", len(alphabet), slices.IsSorted([]byte(alphabet)))
	}
	if strings.ContainsAny(alphabet, "ilou") {
		t.Error("i, l, o and u are read wrongly by people")
	}
}
