package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a directory",
		Long: `Write a manual page for every command into DIR, which is made where it does
not exist: ebb.1, ebb-job.1, ebb-job-why.1 and so on.`,
		Example: `  ebb man ~/.local/share/man/man1
  man -l man1/ebb-job-why.1`,
		Args: exactly("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return &failed{code: exitNo, err: fmt.Errorf("man: %w", err), try: "a directory that this user can write"}
			}
			now := a.now()
			if text, _ := a.lookup("SOURCE_DATE_EPOCH"); text != "" { // of a build that can be repeated
				seconds, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return usage(fmt.Errorf("man: SOURCE_DATE_EPOCH=%q: want seconds since 1970", text), "SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) ebb man DIR")
				}
				now = time.Unix(seconds, 0).UTC()
			}
			header := &doc.GenManHeader{Section: "1", Source: "Ebb " + currentVersion(), Manual: "Ebb", Date: &now}
			if err := doc.GenManTree(c.Root(), header, args[0]); err != nil {
				return &failed{code: exitNo, err: fmt.Errorf("man: %w", err), try: "a directory that this user can write"}
			}
			if !a.quiet {
				fmt.Fprintf(a.stdout, "manual pages written to %s\n", args[0])
			}
			return nil
		},
	}
}
