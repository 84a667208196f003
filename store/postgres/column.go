package postgres

import "time"

// column is one column of many rows, to be sent as an array. Rows that hold
// nothing at its end are not sent: to the statement they are NULL. So a column
// without any value costs nothing, and most have none.
type column[T comparable] struct {
	values []T
	empty  int // rows without a value since the last one with
}

// add adds the next row's value; the zero value is none.
func (c *column[T]) add(value T) {
	var none T
	if value == none {
		c.empty++
		return
	}
	for ; c.empty > 0; c.empty-- {
		c.values = append(c.values, none)
	}
	c.values = append(c.values, value)
}

// array returns the parameter.
func (c *column[T]) array() []T {
	if c.values == nil {
		return []T{}
	}
	return c.values
}

// moments is a column of instants. None is sent as the infinite past: an array
// without NULL is read faster.
type moments struct {
	values instants
	empty  int
}

func (m *moments) add(t time.Time) {
	if t.IsZero() {
		m.empty++
		return
	}
	for ; m.empty > 0; m.empty-- {
		m.values = append(m.values, never)
	}
	m.values = append(m.values, micros(t))
}

func (m *moments) array() instants {
	if m.values == nil {
		return instants{}
	}
	return m.values
}

// maxVerdicts bounds the verdicts of one statement, which finds each by
// walking over those before it.
const maxVerdicts = 128

// verdict is what many settles have in common.
type verdict struct {
	cause, config, fingerprint, class, reason, error, stack, action, because, heldBy, counted, rule, version string
	status                                                                                                   int32
}

// verdicts are the different ones of a statement.
type verdicts struct {
	all  []verdict
	last int32
	at   map[verdict]int32
}

// place returns where the verdict stands, from 1.
func (v *verdicts) place(want verdict) int32 {
	if v.last > 0 && v.all[v.last-1] == want {
		return v.last
	}
	at, known := v.at[want]
	if !known {
		if v.at == nil {
			v.at = map[verdict]int32{}
		}
		v.all = append(v.all, want)
		at = int32(len(v.all))
		v.at[want] = at
	}
	v.last = at
	return at
}

// arrays returns them column by column, as settleColumns lists them.
func (v *verdicts) arrays() []any {
	texts := make([]column[string], 13)
	var statuses column[int32]
	for _, one := range v.all {
		for i, text := range [...]string{
			one.cause, one.config, one.fingerprint, one.class, one.reason, one.error, one.stack, one.action, one.because, one.heldBy,
			one.counted, one.rule, one.version,
		} {
			texts[i].add(text)
		}
		statuses.add(one.status)
	}
	all := make([]any, 0, len(texts)+1)
	for i := range texts {
		all = append(all, texts[i].array())
	}
	return append(all, statuses.array())
}
