package report

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

var manifestHead = []string{"url", "outcome", "class", "reason", "status", "starts", "wave", "at"}

// CSV writes the manifest of failures: one row for every URL that is not here,
// the input's context columns after ours. It can be given to another fetch
// with the column url. A context column of a name that is ours gets "input "
// before it.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(append(slices.Clone(manifestHead), r.columns()...)); err != nil {
		return err
	}
	err := r.each(func(f *Failure) error {
		status, at := "", ""
		if f.Status != 0 {
			status = strconv.Itoa(f.Status)
		}
		if !f.At.IsZero() {
			at = f.At.UTC().Format(time.RFC3339)
		}
		row := []string{f.URL, string(f.Outcome), f.Class, f.Reason, status, strconv.Itoa(f.Starts), strconv.Itoa(f.Wave), at}
		return out.Write(append(row, r.context(f)...))
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

// columns are the names of the context columns beside ours.
func (r *Report) columns() []string {
	names := slices.Clone(r.Columns)
	for i, name := range names {
		if slices.Contains(manifestHead, strings.ToLower(name)) {
			names[i] = "input " + name
		}
	}
	return names
}

// JSONL writes the manifest with one object a line.
func (r *Report) JSONL(w io.Writer) error {
	buffer := bufio.NewWriter(w)
	enc := json.NewEncoder(buffer)
	enc.SetEscapeHTML(false)
	if err := r.each(func(f *Failure) error { return enc.Encode(f.json()) }); err != nil {
		return err
	}
	return buffer.Flush()
}

func (r *Report) each(do func(*Failure) error) error {
	if r.Failures == nil {
		return nil
	}
	if err := r.Failures(func(f Failure) error { return do(&f) }); err != nil {
		return fmt.Errorf("report: manifest: %w", err)
	}
	return nil
}
