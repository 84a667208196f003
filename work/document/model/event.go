package model

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// event is one server-sent event.
type event struct {
	name string
	data string
}

// events reads server-sent events: fields event and data; comments and other
// fields are passed over.
type events struct{ lines *bufio.Reader }

// maxLine bounds one line of a stream.
const maxLine = 8 << 20

var errLine = errors.New("a line of the stream is too long")

func newEvents(r io.Reader) *events { return &events{bufio.NewReaderSize(r, 32<<10)} }

// next returns the next event that has data, io.EOF after the last whole one.
func (s *events) next() (event, error) {
	var e event
	var data []string
	for {
		line, err := s.line()
		if err != nil {
			return event{}, err
		}
		if line == "" {
			if len(data) > 0 {
				e.data = strings.Join(data, "\n")
				return e, nil
			}
			e = event{}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "data":
			data = append(data, value)
		}
	}
}

func (s *events) line() (string, error) {
	var b []byte
	for {
		part, more, err := s.lines.ReadLine()
		if err != nil {
			return "", err
		}
		b = append(b, part...)
		if !more {
			return string(b), nil
		}
		if len(b) > maxLine {
			return "", errLine
		}
	}
}
