package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ebbhq/ebb/engine"
)

// bindPage adds what bounds a list.
func bindPage(c *cobra.Command, p *engine.Page) {
	bindLimit(c, &p.Limit)
	c.Flags().StringVar(&p.Cursor, "cursor", "", "go on where a list before ended (its next)")
}

// bindLimit adds the flag that says how many rows a list has at most.
func bindLimit(c *cobra.Command, n *int) {
	*n = engine.DefaultLimit
	c.Flags().Var((*limitFlag)(n), "limit", fmt.Sprintf("most rows, up to %d", engine.MaxLimit))
}

// limitFlag is a number of rows. No rows is nobody's wish, and would read as the
// default further on.
type limitFlag int

func (f *limitFlag) String() string { return strconv.Itoa(int(*f)) }
func (f *limitFlag) Type() string   { return "rows" }

func (f *limitFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > engine.MaxLimit {
		return errors.New("no number of rows")
	}
	*f = limitFlag(n)
	return nil
}

// more says how to see the part of a list that follows: the same command with
// the same flags, and the cursor.
func (a *app) more(c *cobra.Command, next string) {
	if next == "" {
		return
	}
	words := []string{c.CommandPath()}
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "cursor" {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if f.NoOptDefVal == v { // a switch
				words = append(words, "--"+f.Name)
			} else {
				words = append(words, "--"+f.Name, shellWord(v))
			}
		}
	})
	a.remarkErr("more: %s --cursor %s", strings.Join(words, " "), shellWord(next))
}

// shellWord quotes text where a shell would read it otherwise.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if text != "" && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
