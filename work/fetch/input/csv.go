package input

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ebbhq/ebb/work/fetch/scope"
)

var errLongRecord = fmt.Errorf("a record over %d bytes: is a quote never closed?", maxRecord)

// meter refuses to read far past its last mark.
type meter struct {
	in    io.Reader
	since int
}

func (m *meter) Read(p []byte) (int, error) {
	if m.since > maxRecord {
		return 0, errLongRecord
	}
	n, err := m.in.Read(p[:min(len(p), 16<<10)])
	m.since += n
	return n, err
}

// table is a CSV being read.
type table struct {
	csv    *csv.Reader
	meter  *meter
	names  []string
	url    int      // the column of URLs, from 0
	unread []string // the first record, when it is no header
}

func (r *Reader) csv(name string, s Source, text *bufio.Reader) {
	t, err := openTable(s, text)
	if err != nil {
		r.fail(&Error{Source: name, Line: 1, Err: err, Fatal: true})
		return
	}
	for !r.stopped {
		record, line, err := t.next()
		switch parse := (*csv.ParseError)(nil); {
		case errors.Is(err, io.EOF):
			return
		case errors.As(err, &parse):
			r.count.Bad++
			if errors.Is(parse.Err, csv.ErrFieldCount) {
				parse.Err = fmt.Errorf("%d columns, want the header's %d", len(record), len(t.names))
			}
			r.fail(&Error{Source: name, Line: parse.Line, Err: parse.Err})
		case err != nil:
			r.fail(&Error{Source: name, Line: line, Err: err, Fatal: true})
			return
		case strings.TrimSpace(record[t.url]) == "":
			r.count.Bad++
			r.fail(&Error{Source: name, Line: line, Err: fmt.Errorf("column %q is empty", t.names[t.url])})
		default:
			r.take(record[t.url], t.context(record), name, line)
		}
	}
}

// next returns the next record and the line it begins on; after a fault, the
// line that was being read.
func (t *table) next() (record []string, line int, err error) {
	if t.unread != nil {
		record, t.unread = t.unread, nil
		return record, 1, nil
	}
	t.meter.since = 0
	record, err = t.csv.Read()
	if err != nil {
		return record, 0, err
	}
	line, _ = t.csv.FieldPos(0)
	return record, line, nil
}

func (t *table) context(record []string) []Column {
	context := make([]Column, 0, len(record)-1)
	for i, value := range record {
		if i != t.url {
			context = append(context, Column{t.names[i], strings.Clone(value)})
		}
	}
	return context
}

func openTable(s Source, text *bufio.Reader) (*table, error) {
	head, _ := text.Peek(4 << 10)
	m := &meter{in: text}
	t := &table{csv: csv.NewReader(m), meter: m}
	t.csv.Comma = separator(s.Name, string(head))
	t.csv.ReuseRecord = true
	first, err := t.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("empty: want a header with the columns' names")
	case err != nil:
		return nil, err
	}
	first = append([]string(nil), first...)
	t.url, err = column(s.Column, first)
	if err != nil {
		return nil, err
	}
	t.names = first
	if _, err := scope.Normalize(first[t.url]); err == nil { // a URL: there is no header
		t.unread = first
		t.names = make([]string, len(first))
		for i := range t.names {
			t.names[i] = "column " + strconv.Itoa(i+1)
		}
	}
	for i, name := range t.names {
		t.names[i] = strings.TrimSpace(name)
	}
	return t, nil
}

// separator is the tab for .tsv, else the likeliest of the first line.
func separator(name, head string) rune {
	if strings.HasSuffix(strings.TrimSuffix(strings.ToLower(name), ".gz"), ".tsv") {
		return '\t'
	}
	line, _, _ := strings.Cut(head, "\n")
	best := ','
	for _, c := range ";\t" {
		if strings.Count(line, string(c)) > strings.Count(line, string(best)) {
			best = c
		}
	}
	return best
}

// column finds the column of URLs in the header.
func column(want string, header []string) (int, error) {
	name := want
	if name == "" {
		name = "url"
	}
	found := -1
	for i, h := range header {
		if !strings.EqualFold(strings.TrimSpace(h), name) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("two columns are named %q: give the column's number", name)
		}
		found = i
	}
	if found >= 0 {
		return found, nil
	}
	if n, err := strconv.Atoi(want); err == nil {
		if n < 1 || n > len(header) {
			return 0, fmt.Errorf("column %d: there are the columns 1 to %d", n, len(header))
		}
		return n - 1, nil
	}
	if want == "" && len(header) == 1 {
		return 0, nil
	}
	return 0, fmt.Errorf("no column is named %q: there are %s", name, quoted(header))
}

func quoted(names []string) string {
	var b strings.Builder
	for i, n := range names {
		if i == 20 {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", cut(n))
	}
	return b.String()
}
