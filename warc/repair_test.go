package warc_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebbhq/ebb/warc"
)

// small writes a file of three exchanges and returns its path, its bytes and
// where each record ends.
func small(t *testing.T) (path string, whole []byte, ends []int64) {
	t.Helper()
	dir := t.TempDir()
	w := create(t, dir)
	for i := range 3 {
		write(t, w, page(fmt.Sprintf("http://a/%d", i), fmt.Sprint("page ", i)))
	}
	finish(t, w)
	path = only(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = warc.Walk(bytes.NewReader(whole), func(r *warc.Record) error {
		err := r.Finish()
		ends = append(ends, r.Offset+r.Length)
		return err
	})
	if err != nil || len(ends) != 10 {
		t.Fatalf("%d records, %v", len(ends), err)
	}
	return path, whole, ends
}

// before returns how many records end at or before the cut, and where.
func before(ends []int64, cut int) (records int, end int64) {
	for _, e := range ends {
		if e <= int64(cut) {
			records, end = records+1, e
		}
	}
	return records, end
}

var tails = []string{"", "\xee\xee\xee\xee\xee", "\x1f\x8b\x08junk"}

// Cut at any byte, with or without rubbish after it, a file is sound exactly
// up to its last whole record before the cut.
func TestEveryTornTailIsSeen(t *testing.T) {
	_, whole, ends := small(t)
	for cut := range len(whole) + 1 {
		records, end := before(ends, cut)
		for i, tail := range tails {
			if i > 0 && cut%7 != 0 {
				continue
			}
			s, err := warc.Walk(bytes.NewReader(append(whole[:cut:cut], tail...)), nil)
			if sound := end == int64(cut+len(tail)); s.Records != records || s.End != end || (err == nil) != sound {
				t.Fatalf("cut at %d, then %q: %d records up to %d and %v, want %d up to %d", cut, tail, s.Records, s.End, err, records, end)
			}
		}
	}
}

func TestRepairTornTails(t *testing.T) {
	path, whole, ends := small(t)
	for _, cut := range []int{0, 1, int(ends[0]) - 1, int(ends[0]), int(ends[0]) + 1, int(ends[0]) + 60, int(ends[4]) - 8, int(ends[4]) + 2, len(whole) - 1, len(whole)} {
		records, end := before(ends, cut)
		for _, tail := range tails {
			if err := os.WriteFile(path, append(whole[:cut:cut], tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := warc.Repair(path)
			want := warc.Repaired{Path: path, Records: records, Cut: int64(cut+len(tail)) - end, Why: got.Why}
			if diff := cmp.Diff(want, got); err != nil || diff != "" || (got.Cut > 0) != (got.Why != "") {
				t.Fatalf("cut at %d, then %q: %v %s", cut, tail, err, diff)
			}
			if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, whole[:end]) {
				t.Fatalf("cut at %d, then %q: %d bytes are left, want %d", cut, tail, len(left), end)
			}
		}
	}
}

// Damage that whole records follow is no torn tail: nothing is thrown away.
func TestRepairRefusesDamage(t *testing.T) {
	path, whole, ends := small(t)
	for record := range 9 {
		damaged := bytes.Clone(whole)
		at := ends[record] - 9 // the last byte of the deflated data
		damaged[at] ^= 0xff
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := warc.Repair(path)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("a whole record follows at offset %d", ends[record])) {
			t.Errorf("record %d: %v", record, err)
		}
		if left, _ := os.ReadFile(path); !bytes.Equal(left, damaged) {
			t.Errorf("record %d: the file was changed", record)
		}
	}
}

func TestRepairPlain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.warc")
	if err := os.WriteFile(path, []byte(plain+plain+plain[:200]), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := warc.Repair(path)
	want := warc.Repaired{Path: path, Records: 2, Cut: 200, Why: "the file ends within the record"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if err := os.WriteFile(path, []byte(plain+"X"+plain), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := warc.Repair(path); err == nil {
		t.Error("damage in the middle was taken for a torn tail")
	}
	if _, err := warc.Repair(path + "none"); err == nil {
		t.Error("a file that is not there was repaired")
	}
}

func TestRecover(t *testing.T) {
	_, whole, ends := small(t)
	dir := t.TempDir()
	put := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("test-1.warc.gz.open", whole[:len(whole)-3]) // torn
	put("test-2.warc.gz.open", whole)                // whole, but never closed
	put("test-3.warc.gz.open", whole[:ends[0]+5])    // nothing but warcinfo
	put("test-4.warc.gz.open", nil)
	damaged := bytes.Clone(whole)
	damaged[ends[3]-9] ^= 0xff
	put("test-5.warc.gz.open", damaged)
	put("test-6.warc.gz.open", whole) // its name is taken
	put("test-6.warc.gz", whole[:ends[4]])
	put("other-1.warc.gz.open", whole[:20])

	living := create(t, dir)
	write(t, living, page("http://a/", "alive"))

	var closed []string
	all, err := warc.Recover(dir, "test", func(path string) error { closed = append(closed, filepath.Base(path)); return nil })
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "test-5") || !strings.Contains(err.Error(), "test-6") {
		t.Errorf("got %v, want that test-5 is damaged and test-6 taken", err)
	}
	want := []warc.Repaired{
		{Path: filepath.Join(dir, "test-1.warc.gz"), Records: 9, Cut: int64(len(whole)) - 3 - ends[8], Why: "the file ends within the record"},
		{Path: filepath.Join(dir, "test-2.warc.gz"), Records: 10},
		{Records: 1, Cut: 5, Why: "the file ends within the record"},
		{},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"test-1.warc.gz", "test-2.warc.gz"}, closed); diff != "" {
		t.Error(diff)
	}
	write(t, living, page("http://a/2", "still alive"))
	finish(t, living)
	var left []string
	for _, name := range list(t, dir) {
		if !strings.HasPrefix(name, "test-2026") { // the living one's
			left = append(left, name)
		}
	}
	if diff := cmp.Diff([]string{"other-1.warc.gz.open", "test-1.warc.gz", "test-2.warc.gz", "test-5.warc.gz.open", "test-6.warc.gz", "test-6.warc.gz.open"}, left); diff != "" {
		t.Error(diff)
	}
}
