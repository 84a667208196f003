package queue

import (
	"maps"
	"slices"
)

// systems are those written in Go, by the names that children are started with.
var systems = map[string]func() Queue{
	"ebb":         func() Queue { return &Ebb{} },
	"ebb-sqlite":  func() Queue { return &Ebb{Scheme: "sqlite:"} },
	"lean":        func() Queue { return &Lean{} },
	"lean-sqlite": func() Queue { return &LeanSQLite{} },
	"river":       func() Queue { return &River{} },
}

// New returns the system of a name, nil if there is none.
func New(name string) Queue {
	if found := systems[name]; found != nil {
		return found()
	}
	return nil
}

// Names lists what New knows.
func Names() []string { return slices.Sorted(maps.Keys(systems)) }
