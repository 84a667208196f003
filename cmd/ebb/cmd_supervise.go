package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/work/supervise"
)

// superviseFlags are what `ebb supervise` can be told.
type superviseFlags struct {
	file, policy, dir, name, crawler, textfile, queue string
	workers                                           int
	retry                                             bool
	speed                                             float64
}

func (a *app) superviseCommand() *cobra.Command {
	var f superviseFlags
	c := &cobra.Command{
		Use:   "supervise [-f FILE] [--policy P] -- COMMAND…",
		Short: "Run a long process until it is done, or say exactly why not",
		Long: `Run a command, restart it by policy, and prove that it finished.

Alone, it keeps its ledger in DIR/.ebb and works until the run is over. If it is
killed, the command goes on; the next ebb supervise in that directory takes it
over. With --queue it only queues the run in the database of --db, for ebb serve.

What counts as progress and what an exit means is known for wget,
browsertrix-crawler, zimit, curl, rsync and ebb fetch, and can be said in a file.
A wrong flag is parked at once as infra_error_config and spends no restart. In the
command {attempt}, {mode}, {workers}, {resume}, {remaining}, {out}, {dir} and
{name} are replaced for each start; output flags of known crawlers get the
attempt's number, so that nothing is overwritten.

Interrupt once: the command is told to end (INT, then TERM, then KILL). Twice: it
is killed. Exit codes: 0 done and proven; 1 it could not be done; 2 wrong
usage or an unreadable file; 3 failed for good; 4 parked, waits for a person; 130 interrupted.`,
		Example: `  ebb supervise -- wget --recursive --level=inf --warc-file=site https://example.org/
  ebb supervise --policy annual-crawl --dir /srv/crawls/hc -f crawl.yaml
  ebb supervise --queue runs --db postgres://ebb@db/ebb -f crawl.yaml
  ebb supervise show`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() > 0 || len(args) > 0 && c.ArgsLenAtDash() < 0 {
				return usage(fmt.Errorf("supervise: %q: the command stands behind --", args[0]), "ebb supervise -- "+strings.Join(args, " "))
			}
			spec, err := a.superviseSpec(&f, args)
			if err != nil {
				return err
			}
			if f.queue != "" {
				return a.submitRun(c, spec, f.queue)
			}
			return a.superviseAlone(c.Context(), spec, &f)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "spec of the run, see docs/supervise.md")
	flags.StringVar(&f.policy, "policy", "", "policy of restarts (default annual-crawl)")
	flags.StringVar(&f.name, "name", "", "name of the run (default: the file's, or the directory's)")
	flags.StringVar(&f.crawler, "crawler", "", "what is known of the program: "+strings.Join(supervise.Crawlers(), ", ")+" (default: by its name)")
	flags.StringVar(&f.textfile, "textfile", "", "directory of node_exporter's text files")
	flags.StringVar(&f.queue, "queue", "", "queue the run in the database of --db and return")
	flags.IntVar(&f.workers, "workers", 0, "workers to begin with: {workers}")
	flags.BoolVar(&f.retry, "retry", false, "give a run that failed or is parked fresh restarts")
	flags.Float64Var(&f.speed, "speed", 1, "policy time runs so much faster")
	_ = flags.MarkHidden("speed") // it exists
	c.PersistentFlags().StringVar(&f.dir, "dir", "", "directory of the run: ledger, attempts, logs (default: here, or the file's)")
	c.AddCommand(a.superviseListCommand(&f), a.superviseShowCommand(&f), a.superviseLogCommand(&f), a.superviseReleaseCommand(&f))
	return c
}

// superviseChildCommand is the wrapper of a supervised command: this program
// calls itself with it.
func (a *app) superviseChildCommand() *cobra.Command {
	return &cobra.Command{
		Use: "supervise-child DIR", Hidden: true, Args: exactly("DIR"),
		Short: "Run one attempt of a supervised command and record how it ended",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := supervise.Child(args[0]); err != nil {
				return &failed{code: exitNo, err: err}
			}
			return nil
		},
	}
}

var unnameable = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// superviseSpec reads the run from the file and the command line; the latter
// is the stronger.
func (a *app) superviseSpec(f *superviseFlags, argv []string) (supervise.Spec, error) {
	spec := supervise.Spec{Version: 1}
	here, err := os.Getwd()
	if err != nil {
		return spec, &failed{code: exitNo, err: fmt.Errorf("supervise: %w", err)}
	}
	dir := f.dir
	if dir != "" && !filepath.IsAbs(dir) {
		dir = filepath.Join(here, dir)
	}
	switch {
	case f.file != "":
		src, err := os.ReadFile(f.file)
		if err != nil {
			return spec, usage(fmt.Errorf("supervise: %w", err), "ebb supervise -f FILE")
		}
		base, err := filepath.Abs(filepath.Dir(f.file))
		if err != nil {
			return spec, usage(fmt.Errorf("supervise: %w", err), "")
		}
		if spec, err = supervise.Parse(f.file, src, base); err != nil {
			return spec, usage(fmt.Errorf("supervise: %w", err), "docs/supervise.md lists every key")
		}
	case len(argv) == 0:
		return spec, usage(errors.New("supervise: nothing to run"), "ebb supervise -- COMMAND…, or ebb supervise -f FILE")
	default:
		spec.Dir, spec.Cwd = here, here
		if dir != "" {
			spec.Dir = dir
		}
	}
	if dir != "" {
		spec.Dir = dir
	}
	if len(argv) > 0 {
		spec.Command, spec.Crawler = supervise.Words(argv...), ""
	}
	override(&spec, f)
	if spec, err = supervise.Seal(spec); err != nil {
		return spec, usage(fmt.Errorf("supervise: %w", err), "ebb supervise --help")
	}
	return spec, nil
}

func override(spec *supervise.Spec, f *superviseFlags) {
	for _, o := range []struct {
		to   *string
		from string
	}{{&spec.Policy, f.policy}, {&spec.Name, f.name}, {&spec.Crawler, f.crawler}, {&spec.Textfile, f.textfile}} {
		if o.from != "" {
			*o.to = o.from
		}
	}
	if f.workers > 0 {
		spec.Workers.Initial = f.workers
	}
	if spec.Name == "" {
		spec.Name = strings.Trim(unnameable.ReplaceAllString(filepath.Base(spec.Dir), "-"), "-.")
	}
	if spec.Name == "" {
		spec.Name = "run"
	}
}
