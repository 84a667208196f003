package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/clock"
)

// Exit codes that users rely on.
const (
	exitDone        = 0
	exitNo          = 1   // the answer is no, or it could not be done
	exitUsage       = 2   // wrong usage or unreadable input
	exitIncomplete  = 3   // some work failed for good
	exitParked      = 4   // work waits for a person
	exitInterrupted = 130 // told to stop
)

// app is what every command shares.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	lookup func(string) (string, bool)
	now    func() time.Time
	// clock is policy time of what serves; nil = the store's and the machine's.
	clock clock.Clock

	config  string
	db      string
	key     string // --key-file
	json    bool
	quiet   bool
	noColor bool
	// autoRecover: the server recovers runs of campaigns by itself.
	autoRecover bool
}

// failed is an error with the exit code it leads to and what to try next.
type failed struct {
	code  int
	err   error
	try   string
	quiet bool // the command has printed all there is to say
}

func (f *failed) Error() string { return f.err.Error() }
func (f *failed) Unwrap() error { return f.err }

// usage is an error of the command line or of an unreadable input.
func usage(err error, try string) error { return &failed{code: exitUsage, err: err, try: try} }

// no is an answer of "no" that is already printed.
func no(err error) error { return &failed{code: exitNo, err: err, quiet: true} }

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, lookup func(string) (string, bool)) int {
	out := &output{Writer: stdout}
	a := &app{stdin: stdin, stdout: out, stderr: stderr, lookup: lookup, now: time.Now}
	root := a.root() //nolint:contextcheck // commands take the context that ExecuteContext gives them
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var f *failed
	switch {
	case ctx.Err() != nil && err != nil:
		f = &failed{code: exitInterrupted, err: errors.New("interrupted")}
	case out.err != nil: // whatever the command made of it
		f = &failed{code: exitNo, err: fmt.Errorf("standard output: %w", out.err)}
	case err == nil:
		return exitDone
	case !errors.As(err, &f):
		f = &failed{code: exitUsage, err: err, try: "ebb --help"}
	}
	if !f.quiet {
		fmt.Fprintln(stderr, "ebb: "+strings.TrimPrefix(strings.TrimPrefix(f.Error(), "ebb "), "ebb: "))
		if f.try != "" {
			fmt.Fprintln(stderr, "Try: "+f.try)
		}
	}
	return f.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ebb",
		Short: "Finish work that fails, without hammering what is failing",
		Long: `Ebb finishes work that fails, without hammering what is failing.

Retry policies are data: declared in a file, linted, compared with what was
accepted, and enforced where work runs. Jobs are kept in a database; every
failure is remembered with the decision that followed and its reason.

Exit codes: 0 done; 1 the answer is no, or it could not be done; 2 wrong usage
or unreadable input; 3 incomplete; 4 parked; 130 interrupted.`,
		Example: `  ebb policy show webhook
  ebb policy lint policies.yaml
  ebb job enqueue --kind mail --args '{"to": "maya"}'
  ebb job why ID
  ebb target list
  ebb dead groups
  ebb demo`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args:              subcommand,
		RunE:              help,

		SuggestionsMinimumDistance: 1, // its words are short
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.config, "config", "", "configuration file (default ebb.yaml where it exists; EBB_CONFIG)")
	flags.StringVar(&a.db, "db", "", "where jobs are kept: sqlite:PATH or postgres://… (default sqlite: in the user's data directory; EBB_DB)")
	flags.BoolVar(&a.json, "json", false, "print JSON for programs")
	flags.BoolVar(&a.quiet, "quiet", false, "print results only, no remarks")
	flags.BoolVar(&a.noColor, "no-color", false, "no colours (also NO_COLOR)")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(fmt.Errorf("%s: %w", c.CommandPath(), plainly(err)), c.CommandPath()+" --help")
	})
	root.AddCommand(
		a.jobCommand(), a.queueCommand(), a.kindCommand(), a.targetCommand(), a.periodicCommand(), a.deadCommand(), a.policyCommand(), a.simulateCommand(), a.migrateCommand(), a.serveCommand(), a.healthCommand(), a.webhookCommand(), a.documentCommand(), a.fetchCommand(), a.tokenCommand(), a.auditCommand(), a.backupCommand(), a.restoreCommand(), a.configCommand(), a.demoCommand(), a.manCommand(), a.versionCommand(),
	)
	root.AddCommand(a.superviseCommand(), a.superviseChildCommand(), a.campaignCommand())
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Args, c.RunE = subcommand, help
	}
	return root
}

// group is a command that only holds others: called alone it shows its help,
// called with a word it does not know it says so.
func group(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long,
		SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, args []string) error {
			if err := subcommand(c, args); err != nil {
				return err
			}
			return c.Help()
		},
	}
}

func help(c *cobra.Command, _ []string) error { return c.Help() }

// helpCommand is `ebb help COMMAND`, which knows what it has no help for.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Help for a command",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || c == nil {
				return subcommand(root, args)
			}
			if len(rest) > 0 {
				return subcommand(c, rest)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// subcommand refuses a word that no subcommand has, with the nearest that one
// has.
func subcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	try := c.CommandPath() + " --help"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		try = c.CommandPath() + " " + near[0]
	}
	return usage(fmt.Errorf("%s: unknown command %q", c.CommandPath(), args[0]), try)
}

// exactly checks the number of arguments with an error that names them.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		err := fmt.Errorf("%s: wants %s, got %d arguments", c.CommandPath(), strings.Join(names, " "), len(args))
		if len(names) == 0 {
			err = fmt.Errorf("%s: takes no arguments, got %q", c.CommandPath(), args[0])
		}
		return usage(err, c.CommandPath()+" --help")
	}
}

// printJSON writes one indented object.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// paint colours text on a terminal.
func (a *app) paint(code, text string) string {
	if plain, _ := a.lookup("NO_COLOR"); plain != "" || a.noColor || !isTerminal(a.stdout) {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

const (
	red    = "31"
	yellow = "33"
	green  = "32"
	dim    = "2"
	bold   = "1"
)

// output remembers the first error of standard output, so that no command has
// to look at each line that it prints.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func isTerminal(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
