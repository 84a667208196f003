// Package ebb finishes work that fails, without hammering what is failing.
//
// Every failure takes the same way through the module: package failure says
// what went wrong, package policy what was promised, and package retry
// decides once what happens next, with its reason. docs/architecture.md
// names every package and the question it answers.
package ebb
