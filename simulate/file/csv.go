package file

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/simulate"
)

// maxCSV is the largest CSV file, in bytes.
const maxCSV = 64 << 20

func isCSV(text string) bool { return strings.HasSuffix(strings.ToLower(text), ".csv") }

// times reads the instants of a trace: a list, or the name of a CSV file.
func (r *reader) times(s spot, times *[]time.Duration) {
	if _, isList := s.node.(*ast.SequenceNode); isList {
		*times = nil
		for _, item := range r.items(s) {
			var d time.Duration
			r.duration(item, &d)
			*times = append(*times, d)
		}
		return
	}
	text, ok := r.text(s, "a list of durations or the name of a CSV file")
	if !ok {
		return
	}
	read, err := r.readTimes(text)
	if err != nil {
		r.fail(s.at, s.path, "%v", err)
	}
	*times = read
}

// values reads the values of empirical: a list, or the name of a CSV file.
func (r *reader) values(s spot, values *[]simulate.Value) {
	*values = nil
	if _, isList := s.node.(*ast.SequenceNode); !isList {
		text, ok := r.text(s, "a list of durations or the name of a CSV file")
		if !ok {
			return
		}
		rows, err := r.readCSV(text)
		if err != nil {
			r.fail(s.at, s.path, "%v", err)
		}
		for _, row := range rows {
			v := simulate.Value{Value: row.at}
			*values = append(*values, v)
		}
		return
	}
	for _, item := range r.items(s) {
		v := simulate.Value{}
		if _, isScalar := scalarOf(item.node); isScalar {
			r.duration(item, &v.Value)
		} else {
			r.mapping(item, valueOf(&v))
		}
		*values = append(*values, v)
	}
}

func (r *reader) readTimes(path string) ([]time.Duration, error) {
	rows, err := r.readCSV(path)
	times := make([]time.Duration, 0, len(rows))
	for i, row := range rows {
		if i > 0 && row.at < rows[i-1].at {
			return nil, fmt.Errorf("%s:%d: is before the line above; times ascend", path, row.line)
		}
		times = append(times, row.at)
	}
	return times, err
}

// csvRow is one line's first column.
type csvRow struct {
	line int
	at   time.Duration
}

// readCSV reads the first column of a file: seconds as a number, durations
// with a unit, or instants (RFC 3339), of which the first is 0. A first line
// that is none of them is a heading.
func (r *reader) readCSV(path string) ([]csvRow, error) {
	if path == "" {
		return nil, errors.New("the name of a CSV file is missing")
	}
	src, err := r.open(path)
	if err != nil {
		return nil, fmt.Errorf("CSV file: %w", err)
	}
	if len(src) > maxCSV {
		return nil, fmt.Errorf("%s: is larger than %d MiB", path, maxCSV>>20)
	}
	var rows []csvRow
	var zero time.Time
	number := 0
	for line := range bytes.Lines(normalised(src)) {
		number++
		cell, _, _ := strings.Cut(strings.TrimSpace(string(line)), ",")
		cell = strings.Trim(strings.TrimSpace(cell), `"`)
		if cell == "" || strings.HasPrefix(cell, "#") {
			continue
		}
		at, ok := parseTime(cell, &zero)
		switch {
		case ok:
			rows = append(rows, csvRow{line: number, at: at})
		case len(rows) > 0 || number > 1:
			return nil, fmt.Errorf("%s:%d: %q is no time; seconds, a duration such as 1.5ms, or an instant such as 2026-04-08T09:00:00Z", path, number, short(cell))
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no time in it", path)
	}
	return rows, nil
}

func parseTime(cell string, zero *time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseFloat(cell, 64); err == nil {
		return time.Duration(math.Round(seconds * 1e9)), seconds >= 0 && seconds < 1e9
	}
	if t, err := time.Parse(time.RFC3339Nano, cell); err == nil {
		if zero.IsZero() {
			*zero = t
		}
		return t.Sub(*zero), !t.Before(*zero)
	}
	d, err := policy.ParseDuration(cell)
	return d, err == nil
}
