package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The command reference is what --help says.
// After a meant change: go test ./cmd/ebb -update.
func TestCommandReferenceInDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Command reference\n\nGenerated from the commands themselves: what `--help` says. Every command takes the flags at the end of this page too. Exit codes: 0 done; 1 the answer is no, or it could not be done; 2 wrong usage or unreadable input; 3 incomplete; 4 parked; 130 interrupted.\n")
	root := (&app{}).root()
	describe(&b, root)
	b.WriteString("\n## Flags of every command\n\n```text\n" + root.PersistentFlags().FlagUsages() + "```\n")
	path := filepath.Join("..", "..", "docs", "cli.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != b.String() {
		t.Errorf("docs/cli.md is not what the commands say (%v); run: go test ./cmd/ebb -update", err)
	}
}

// describe writes the commands that do something, in the order of their names.
func describe(b *strings.Builder, c *cobra.Command) {
	if c.HasParent() && c.Runnable() && !c.HasSubCommands() {
		text := c.Long
		if text == "" {
			text = c.Short
		}
		fmt.Fprintf(b, "\n## %s\n\n```text\n%s\n\n%s\n```\n", c.CommandPath(), c.UseLine(), strings.TrimSpace(text))
		if c.Example != "" {
			fmt.Fprintf(b, "\n```sh\n%s\n```\n", c.Example)
		}
		if flags := c.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
			fmt.Fprintf(b, "\n```text\n%s```\n", flags.FlagUsages())
		}
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			describe(b, sub)
		}
	}
}
