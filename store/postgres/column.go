package postgres

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
