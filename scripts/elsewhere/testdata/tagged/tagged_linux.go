// Package tagged has a function on Linux alone.
package tagged

func name() string { return "linux" }
