package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/ebbhq/ebb/engine"
)

// wantedOf says what a flag of a type takes, by pflag's name of the type.
var wantedOf = map[string]string{
	"int":      "a whole number",
	"int64":    "a whole number",
	"rows":     fmt.Sprintf("a number from 1 to %d", engine.MaxLimit),
	"uint":     "a whole number from 0",
	"uint64":   "a whole number from 0",
	"float64":  "a number",
	"duration": "a time with its unit, such as 90s, 30m or 2h",
	"bool":     "true or false",
}

// plainly is an error of the flags' parser in the words of who typed it: what
// the flag takes, not which function could not read it.
func plainly(err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	name, value := wrong.GetFlag().Name, wrong.GetValue()
	wanted, known := wantedOf[wrong.GetFlag().Value.Type()]
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("--%s: %q: too large", name, value)
	case known:
		return fmt.Errorf("--%s: %q: want %s", name, value, wanted)
	}
	return err
}
