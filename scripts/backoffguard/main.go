// Command backoffguard fails when a test of the backoff contract did not run
// and pass: skipped, renamed away, removed or failed. It compares a list of
// tests with the output of `go test -json`.
//
//	backoffguard -list scripts/backoff-tests.txt RESULTS.json
//
// It exits 1 when a listed test is not proven, 2 when it cannot tell.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("backoffguard", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listPath := flags.String("list", "scripts/backoff-tests.txt", "the tests that must have run and passed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(stderr, "backoffguard: usage: backoffguard -list FILE RESULTS.json")
		return 2
	}
	tests, err := readFile(*listPath, readList)
	if err != nil {
		fmt.Fprintln(stderr, "backoffguard:", err)
		return 2
	}
	results, err := readFile(flags.Arg(0), readResults)
	if err != nil {
		fmt.Fprintln(stderr, "backoffguard:", err)
		return 2
	}
	if complaints := check(tests, results); len(complaints) > 0 {
		for _, c := range complaints {
			fmt.Fprintln(stderr, "backoffguard:", c)
		}
		fmt.Fprintf(stderr, "backoffguard: the contract of these tests is in docs/architecture.md; a test that moves must move in %s too\n", *listPath)
		return 1
	}
	fmt.Fprintf(stdout, "backoff guard: all %d listed tests ran and passed\n", len(tests))
	return 0
}

func readFile[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		var none T
		return none, err
	}
	v, err := read(bytes.NewReader(text))
	if err != nil {
		return v, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// test names one test as go test -json does.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + " " + t.name }

// readList reads "package test" lines; "#" starts a comment line. An empty
// list is an error: it would guard nothing.
func readList(r io.Reader) ([]test, error) {
	var tests []test
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 2 {
			return nil, fmt.Errorf("line %d: want a package and a test, have %q", n, line)
		}
		tests = append(tests, test{pkg: words[0], name: words[1]})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(tests) == 0 {
		return nil, errors.New("the list is empty: it guards nothing")
	}
	return tests, nil
}

// readResults returns each test's last words ("pass", "skip", "fail"), in
// order, for a test may run more than once.
func readResults(r io.Reader) (map[test][]string, error) {
	results := make(map[test][]string)
	events := 0
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if strings.HasPrefix(line, "{") {
			var event struct{ Action, Package, Test string }
			if jsonErr := json.Unmarshal([]byte(line), &event); jsonErr != nil {
				return nil, fmt.Errorf("line %d: %w", n, jsonErr)
			}
			events++
			if event.Test != "" && (event.Action == "pass" || event.Action == "skip" || event.Action == "fail") {
				t := test{pkg: event.Package, name: event.Test}
				results[t] = append(results[t], event.Action)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if events == 0 {
		return nil, errors.New("no events: not the output of go test -json")
	}
	return results, nil
}

// check returns one complaint for each listed test that is not proven, and
// for each unlisted one of the name TestBackoff… that was skipped.
func check(tests []test, results map[test][]string) []string {
	var complaints []string
	for _, t := range tests {
		actions, ran := results[t]
		if !ran {
			complaints = append(complaints, t.String()+": did not run: removed, renamed or filtered out")
			continue
		}
		for _, action := range actions {
			if action != "pass" {
				complaints = append(complaints, t.String()+": "+map[string]string{"skip": "was skipped", "fail": "failed"}[action])
				break
			}
		}
	}
	var skipped []string
	for t, actions := range results {
		if strings.HasPrefix(t.name, "TestBackoff") && slices.Contains(actions, "skip") && !slices.Contains(tests, t) {
			skipped = append(skipped, t.String()+": was skipped")
		}
	}
	slices.Sort(skipped)
	return append(complaints, skipped...)
}
