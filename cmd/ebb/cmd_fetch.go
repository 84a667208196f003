package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/fetch"
	"github.com/ebbhq/ebb/work/fetch/input"
)

// fetchFlags are what `ebb fetch` can be told. What has a JSON name is kept
// with the fetch, so that whoever goes on with it need not repeat it.
type fetchFlags struct {
	inputs []string
	format string
	column string
	dir    string
	dry    bool

	Policy      string        `json:"policy"`
	Concurrency int           `json:"concurrency,omitempty"`
	Spacing     time.Duration `json:"spacing_ns,omitempty"`
	Timeout     time.Duration `json:"timeout_ns,omitempty"`
	Waiver      string        `json:"waiver,omitempty"`
	Name        string        `json:"name,omitempty"`
	Agent       string        `json:"agent,omitempty"`
	Headers     []string      `json:"headers,omitempty"`
	MaxSize     int64         `json:"max_size,omitempty"`
	Fresh       bool          `json:"fresh,omitempty"`
	Sync        bool          `json:"fsync,omitempty"`
	WARC        bool          `json:"warc,omitempty"`
	NoFiles     bool          `json:"no_files,omitempty"`
	NoRobots    bool          `json:"no_robots,omitempty"`
	Recursive   bool          `json:"recursive,omitempty"`
	Include     []string      `json:"include,omitempty"`
	Exclude     []string      `json:"exclude,omitempty"`
	Soft        []string      `json:"soft,omitempty"`
	SameBody    int           `json:"same_body,omitempty"`
	Probe       bool          `json:"probe,omitempty"`
	KeepEmpty   bool          `json:"keep_empty,omitempty"`
	Speed       float64       `json:"speed,omitempty"`
}

const fetchLong = `Get every page of a list, or of a site, and prove it, without hurting the site.

URLs come from arguments, from files (-i), from standard input (-i -), from a
sitemap, or from a column of a CSV file, whose other columns are carried along
into the report. Pages become files below DIR/pages, with DIR/index.jsonl and
DIR/manifest-sha256.txt beside them. The ledger in DIR/.ebb makes it durable:
after an interruption, or kill -9, the same command goes on where it ended, and
what is finished is not fetched again. When a fetch has ended, the same command
begins the next one, which asks the server only for what has changed.

A page that fails is tried again as the policy says: within its worker's slot,
then in waves after a cooldown. The policy polite, the default, also stops
calling a host that is overloaded, probes it, and resumes gently; scrape is
seed 000 to the letter, without that gate.

A page that robots.txt forbids is not fetched; Crawl-delay is kept. A page that
says 200 and is an error page by the rules of --soft, --probe or --same-body goes
to DIR/quarantine and counts as missing.

With --db postgres://… many machines share one fetch: give all the same --name.

Exit codes: 0 complete; 1 it could not be done; 2 wrong usage or unreadable
input; 3 incomplete: some pages could not be had; 4 parked: some wait for a
person; 130 interrupted: the same command goes on.`

func (a *app) fetchCommand() *cobra.Command {
	f := &fetchFlags{}
	c := &cobra.Command{
		Use:   "fetch [-i FILE] [URL…] -o DIR",
		Short: "Fetch many pages, in waves, gently and completely (seed 000)",
		Long:  fetchLong,
		Example: `  ebb fetch -i urls.txt -o votes
  ebb fetch -i votes.csv --column link -o votes --policy scrape
  ebb fetch -i https://example.org/sitemap.xml -o site --dry-run
  ebb fetch https://example.org/ -o site --recursive --exclude /search --warc
  ebb fetch status votes
  ebb fetch report votes --format html --out votes.html
  ebb fetch explain https://example.org/a votes
  ebb fetch retry --class timeout votes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && len(f.inputs) == 0 && f.dir == "" {
				return c.Help()
			}
			return a.fetchAll(c, f, args)
		},
	}
	a.fetchFlagsOf(c, f)
	c.AddCommand(a.fetchStatusCommand(), a.fetchReportCommand(), a.fetchExplainCommand(), a.fetchRetryCommand())
	return c
}

func (a *app) fetchFlagsOf(c *cobra.Command, f *fetchFlags) {
	flags := c.Flags()
	flags.StringArrayVarP(&f.inputs, "input", "i", nil, "file of URLs, - for standard input, or a sitemap's URL; may be repeated")
	flags.StringVar(&f.format, "format", "", "of the input: lines, csv or sitemap (default: by its name and first byte)")
	flags.StringVar(&f.column, "column", "", "column of a CSV file that holds the URLs, by name or number (default url)")
	flags.StringVarP(&f.dir, "output", "o", "", "directory of the pages and the ledger")
	flags.BoolVar(&f.dry, "dry-run", false, "print the schedule and the time it will take; fetch nothing")
	flags.StringVar(&f.Policy, "policy", fetch.DefaultPolicy, "policy by name, or FILE#NAME")
	flags.IntVar(&f.Concurrency, "concurrency", 0, "requests at once (default: the policy's)")
	flags.DurationVar(&f.Spacing, "spacing", 0, "between starts (default: the policy's; -1ns = none)")
	flags.DurationVar(&f.Timeout, "timeout", 0, "of one try, body included (default: the policy's)")
	flags.StringVar(&f.Waiver, "waive", "", "reason why the floors of politeness do not hold; recorded")
	flags.StringVar(&f.Name, "name", "", "of the fetch, where machines share --db (default: DIR's own name)")
	flags.StringVar(&f.Agent, "user-agent", fetch.DefaultAgent, "who we say we are")
	flags.StringArrayVarP(&f.Headers, "header", "H", nil, "header of every request, NAME: VALUE; may be repeated")
	flags.Int64Var(&f.MaxSize, "max-size", 0, "most bytes of a page, unpacked (default 1 GiB)")
	flags.BoolVar(&f.Fresh, "fresh", false, "fetch pages whole, even those that have not changed since the last fetch")
	flags.BoolVar(&f.Sync, "fsync", false, "make each page safe against a power cut before it counts as done")
	flags.BoolVar(&f.WARC, "warc", false, "keep every request and answer in WARC files below DIR/warc, with CDX and CDXJ indexes")
	flags.BoolVar(&f.NoFiles, "no-files", false, "keep no files by URL; goes with --warc")
	flags.BoolVar(&f.NoRobots, "no-robots", false, "do not read robots.txt; needs --waive")
	a.fetchRuleFlags(c, f)
	flags.Float64Var(&f.Speed, "speed", 0, "run policy time so many times faster, for demonstrations")
	_ = flags.MarkHidden("speed") // the flag exists
}

// fetchRuleFlags are the flags of what is followed and what is no page.
func (a *app) fetchRuleFlags(c *cobra.Command, f *fetchFlags) {
	flags := c.Flags()
	flags.BoolVarP(&f.Recursive, "recursive", "r", false, "follow links within scope, as far as they lead")
	flags.StringArrayVar(&f.Include, "include", nil, "scope: host, /path, URL prefix, glob:… or regexp:… (default: the hosts of the input); may be repeated")
	flags.StringArrayVar(&f.Exclude, "exclude", nil, "out of scope, stronger than --include; may be repeated")
	flags.StringArrayVar(&f.Soft, "soft", nil, "a page that says 200 and is none: title:REGEXP, body:, no-body:, empty:, min-size:, max-size:, type:, magic:, each with \" on REGEXP\" for some URLs; may be repeated")
	flags.IntVar(&f.SameBody, "same-body", 0, "one HTML body on so many URLs is an error page (default: never)")
	flags.BoolVar(&f.Probe, "probe", false, "ask each place for a page that cannot be, to know how its errors look")
	flags.BoolVar(&f.KeepEmpty, "keep-empty", false, "take pages without a byte for pages")
}

// check refuses what cannot work before anything is made.
func (f *fetchFlags) check() error {
	switch {
	case f.dir == "" && !f.dry:
		return usage(errors.New("fetch: no directory for the pages"), "ebb fetch -i urls.txt -o DIR")
	case f.Speed < 0 || f.Speed > 1000:
		return usage(fmt.Errorf("fetch: --speed %g is out of range", f.Speed), "1 to 1000")
	case f.NoFiles && !f.WARC:
		return usage(errors.New("fetch: --no-files would keep nothing"), "--no-files --warc")
	case f.NoRobots && f.Waiver == "":
		return usage(errors.New("fetch: --no-robots: robots.txt is not read only for a reason"), `--no-robots --waive "our own site"`)
	case f.Concurrency < 0:
		return usage(fmt.Errorf("fetch: --concurrency %d", f.Concurrency), "1 or more")
	case f.Timeout < 0:
		return usage(fmt.Errorf("fetch: --timeout %s", f.Timeout), "more than 0s, such as 30s")
	case f.MaxSize < 0:
		return usage(fmt.Errorf("fetch: --max-size %d", f.MaxSize), "bytes, 1 or more")
	case len(f.Include)+len(f.Exclude) > 0 && !f.Recursive:
		return usage(errors.New("fetch: --include and --exclude say which links are followed; without --recursive none are"), "--recursive")
	}
	switch input.Format(f.format) {
	case input.Auto, input.Lines, input.CSV, input.Sitemap:
	default:
		return usage(fmt.Errorf("fetch: --format %q", f.format), "lines, csv or sitemap")
	}
	return f.checkHeaders()
}

// checkHeaders refuses what no request can carry: every page would fail of it.
func (f *fetchFlags) checkHeaders() error {
	for _, h := range f.Headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || !httpguts.ValidHeaderFieldName(strings.TrimSpace(name)) || !httpguts.ValidHeaderFieldValue(strings.TrimSpace(value)) {
			return usage(fmt.Errorf("fetch: --header %q", h), `--header "Name: value"`)
		}
	}
	if !httpguts.ValidHeaderFieldValue(f.Agent) {
		return usage(fmt.Errorf("fetch: --user-agent %q: no header can carry it", f.Agent), `--user-agent "votes/1 (+https://example.org/bot)"`)
	}
	return nil
}

// policy is the policy with what the flags change of it.
func (f *fetchFlags) policy(a *app) (policy.Policy, error) {
	e, err := a.entry(f.Policy)
	if err != nil {
		return policy.Policy{}, err
	}
	if e, err = a.effective(e); err != nil {
		return policy.Policy{}, err
	}
	p := e.Policy
	if f.Concurrency > 0 {
		p.Concurrency, p.Batch = f.Concurrency, max(p.Batch, f.Concurrency)
		if p.PerTarget.Concurrency > 0 {
			p.PerTarget.Concurrency = f.Concurrency
		}
	}
	if f.Spacing != 0 {
		p.Spacing = max(0, f.Spacing)
	}
	if f.Timeout > 0 {
		p.Timeout = f.Timeout
	}
	p, err = policy.Seal(p)
	if err != nil {
		return p, usage(fmt.Errorf("fetch: %w", err), "ebb policy show "+f.Policy)
	}
	return p, nil
}

// checkPolicy refuses a policy that no fetch may run with.
func (f *fetchFlags) checkPolicy(p *policy.Policy) error {
	if p.Target != policy.Host {
		return usage(fmt.Errorf("fetch: policy %s is for target %s; a fetch calls hosts", p.Name, p.Target), "--policy polite, --policy scrape, or one of your own with target: host")
	}
	if err := fetch.CheckFloors(p, f.Waiver); err != nil {
		return usage(err, `--waive "our own site", which is recorded, or a gentler setting`)
	}
	return nil
}

func (f *fetchFlags) header() http.Header {
	h := http.Header{}
	for _, text := range f.Headers {
		name, value, _ := strings.Cut(text, ":")
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h
}

// name of the fetch.
func (f *fetchFlags) name() (string, error) {
	if f.Name != "" {
		return f.Name, nil
	}
	full, err := filepath.Abs(f.dir)
	return filepath.Base(full), err
}

// settings are the flags as they are kept.
func (f *fetchFlags) settings() json.RawMessage {
	text, err := json.Marshal(f)
	if err != nil { // plain values
		panic(err)
	}
	return text
}

// sources are where the URLs come from.
func (f *fetchFlags) sources(args []string) []input.Source {
	var all []input.Source
	for _, name := range f.inputs {
		all = append(all, input.Source{Name: name, Format: input.Format(f.format), Column: f.column})
	}
	if len(args) > 0 {
		all = append(all, input.Arguments(args...))
	}
	return all
}
