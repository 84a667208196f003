package supervise

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// preset is what is known of one program. A change of its meaning is a new
// version beside the old one: a run keeps the version that it was sealed with.
type preset struct {
	name    string
	version int
	counter string
	sources []Source
	errors  []Pattern
	track   *track
	exit    []ExitRule
	outputs []outputFlag
	// logs are flags that send the program's log to a file.
	logs []string
	// workers are flags that say how parallel it works.
	workers []string
	// files are flags that name what it writes: its size is the counter.
	files []string
}

func (p *preset) id() string { return p.name + "@" + strconv.Itoa(p.version) }

// outputFlag names what a program writes: its value gets the attempt's number,
// so that no attempt overwrites another's.
type outputFlag struct {
	names []string
	// dir: the value is a directory that gets one of the attempt below it.
	dir bool
	// missing is added where the flag is not given and none of unless is.
	missing string
	unless  []string
	// only where one of these is given.
	only []string
	// keep: one of these goes on with what an earlier attempt wrote.
	keep []string
	// file: the number goes before the name's extension.
	file bool
}

// presets lists every version of every known program, newest last.
var presets = []*preset{&generic, &wget, &browsertrix, &zimit, &curl, &rsync, &ebbFetch}

// Crawlers lists the known presets, such as wget@1.
func Crawlers() []string {
	var list []string
	for _, p := range presets {
		list = append(list, p.id())
	}
	return list
}

// presetOf finds a preset by name, or by name@version.
func presetOf(id string) (*preset, error) {
	name, version, pinned := strings.Cut(id, "@")
	var found *preset
	for _, p := range presets {
		if p.name == name && (!pinned || strconv.Itoa(p.version) == version) {
			found = p
		}
	}
	if found == nil {
		return nil, fmt.Errorf("crawler: %q is not known; one of: %s", id, strings.Join(Crawlers(), ", "))
	}
	return found, nil
}

// detect names the preset of a command by its program.
func detect(c Command) string {
	switch base := filepath.Base(c[0][0]); base {
	case "wget", "curl", "rsync", "zimit":
		return base
	case "crawl", "browsertrix-crawler":
		return "browsertrix-crawler"
	case "ebb":
		if words := slices.Concat(c...); len(words) > 1 && words[1] == "fetch" {
			return "ebb-fetch"
		}
	}
	return "generic"
}

const notRecognised = `(?i)(unrecogni[sz]ed (?:option|arguments?|flag|switch)|unknown (?:option|argument|flag|shorthand flag|switch|command)|unexpected argument|(?:invalid|illegal|bad|ambiguous) option|no such option|flag provided but not defined|(?:requires|needs) an argument|missing required argument)`

const diskFull = `(?i)(no space left on device|disk quota exceeded|ENOSPC)`

const infraFault = `(?i)(read-only file system|input/output error|permission denied|transport endpoint is not connected|stale file handle|too many open files|cannot allocate memory)`

// generic is the last word on every command.
var generic = preset{
	name: "generic", version: 1, counter: "lines",
	sources: []Source{{Kind: "lines", Pattern: `\S`, Count: "lines"}},
	exit: []ExitRule{
		{Name: "rebooted", Signals: []string{signalReboot}, Outcome: OutcomeInterrupted},
		{Name: "lost", Signals: []string{signalLost}, Outcome: OutcomeRetry},
		{Name: "oom", OOM: true, Outcome: OutcomeRetry},
		{Name: "disk_full", Log: diskFull, Codes: nonZero, Outcome: OutcomeDisk},
		{Name: "disk_full", Full: true, Codes: nonZero, Outcome: OutcomeDisk},
		{Name: "not_found", Codes: []int{126, 127}, Outcome: OutcomeConfig, Reason: ReasonConfig},
		{Name: "usage", Log: notRecognised, Codes: nonZero, Under: Duration(60e9), Outcome: OutcomeConfig, Reason: ReasonConfig},
		{Name: "machine", Log: infraFault, Codes: nonZero, Under: Duration(60e9), Outcome: OutcomeInfra},
		{Name: "success", Codes: []int{0}, Outcome: OutcomeSuccess},
		{Name: "interrupted", Signals: []string{"INT", "TERM", "HUP"}, Outcome: OutcomeRetry},
		{Name: "signal", Signals: allSignals, Outcome: OutcomeRetry},
		{Name: "failed", Codes: nonZero, Outcome: OutcomeRetry},
	},
}

// ReasonConfig is seed 003's name for a command that cannot work as it is.
const ReasonConfig = "infra_error_config"

var nonZero = func() []int {
	codes := []int{-1}
	for c := 1; c < 256; c++ {
		codes = append(codes, c)
	}
	return codes
}()

var allSignals = []string{"KILL", "SEGV", "ABRT", "BUS", "FPE", "ILL", "PIPE", "QUIT", "SYS", "TRAP", "USR1", "USR2", "ALRM", "XCPU", "XFSZ"}

// What stands for a signal where nobody saw the end.
const (
	signalLost   = "LOST"
	signalReboot = "REBOOT"
)

// wget 1.2x. It exits with the least code of all errors that it met, and with
// 8 for a lost page as for a link that leads nowhere: its log tells.
var wget = preset{
	name: "wget", version: 1, counter: "pages",
	track: &track{
		begin: regexp.MustCompile(`^(?:--[-0-9]+ [0-9:]+--\s+(?:\(try:\s*\d+\)\s+)?(\S+)|(https?://\S+):)$`),
		done:  regexp.MustCompile(`saved \[\d+(?:/\d+)?\]$|URL:(\S+) \[\d+(?:/\d+)?\] ->`),
		fails: []trackFail{
			{re: regexp.MustCompile(`(?:awaiting response\.\.\. |ERROR )(?:5\d\d|429|408)\b`), count: countHTTP},
			{re: regexp.MustCompile(`(?:awaiting response\.\.\. |ERROR )4\d\d\b`), count: "absent", final: true},
			{re: regexp.MustCompile(`(?i)timed out`), count: countTimeout},
			{re: regexp.MustCompile(`failed: |No data received|Read error|Giving up|unable to resolve`), count: countOther},
		},
	},
	exit: []ExitRule{
		{Name: "wget.disk_full", Log: diskFull, Outcome: OutcomeDisk},
		{Name: "wget.disk_full", Full: true, Outcome: OutcomeDisk},
		{Name: "wget.warc", Log: `Could not open (?:temporary )?WARC|Error (?:opening|writing|duplicating) .*WARC|Could not (?:write|create) .*WARC`, Codes: nonZero, Outcome: OutcomeInfra},
		{Name: "wget.usage", Codes: []int{2}, Outcome: OutcomeConfig, Reason: ReasonConfig},
		{Name: "wget.no_url", Codes: []int{1}, Log: `missing URL|Unsupported scheme|Invalid URL|Bad port number`, Outcome: OutcomeConfig, Reason: ReasonConfig},
		{Name: "wget.file", Codes: []int{3}, Outcome: OutcomeInfra},
		{Name: "wget.auth", Codes: []int{6}, Outcome: OutcomeConfig, Reason: ReasonConfig},
		{Name: "wget.quota", Log: `Download quota of .* EXCEEDED`, Outcome: OutcomePartial, Reason: "limit"},
		{Name: "wget.throttled", Codes: []int{8}, Log: `ERROR 429`, Seen: []string{"open.http"}, Outcome: OutcomeRateLimited},
		{Name: "wget.pages_lost", Codes: []int{0, 4, 5, 7, 8}, Seen: []string{"open"}, Outcome: OutcomeRetry, Reason: "pages_lost"},
		{Name: "wget.links_broken", Codes: []int{8}, Unseen: []string{"open"}, Outcome: OutcomeSuccess},
		{Name: "wget.network", Codes: []int{4, 5, 7}, Outcome: OutcomeRetry, Reason: "network"},
	},
	outputs: []outputFlag{
		{names: []string{"--warc-file"}},
		{names: []string{"-o", "--output-file", "-a", "--append-output"}},
		{names: []string{"-O", "--output-document"}, file: true, keep: []string{"-c", "--continue"}},
		{names: []string{"--rejected-log"}},
		{
			names: []string{"-P", "--directory-prefix"}, dir: true, missing: "--directory-prefix={out}",
			unless: []string{"-O", "--output-document", "--delete-after", "--spider"}, only: []string{"-r", "--recursive", "-m", "--mirror", "-p", "--page-requisites"},
		},
	},
	logs: []string{"-o", "--output-file", "-a", "--append-output"},
}

var browsertrixExit = []ExitRule{
	{Name: "browsertrix.usage", Log: notRecognised, Codes: nonZero, Under: Duration(60e9), Outcome: OutcomeConfig, Reason: ReasonConfig},
	{Name: "browsertrix.limit", Codes: []int{0}, Seen: []string{"limit"}, Outcome: OutcomePartial, Reason: "limit"},
	{Name: "browsertrix.out_of_space", Codes: []int{3}, Outcome: OutcomeDisk},
	{Name: "browsertrix.disk_utilization", Codes: []int{16}, Outcome: OutcomeDisk},
	{Name: "browsertrix.interrupted", Codes: []int{11, 13}, Outcome: OutcomeRetry, Reason: "interrupted"},
	{Name: "browsertrix.failed_limit", Codes: []int{12}, Outcome: OutcomeRetry, Reason: "failed_limit"},
	{Name: "browsertrix.size_or_time_limit", Codes: []int{14, 15}, Outcome: OutcomePartial, Reason: "limit"},
	{Name: "browsertrix.browser_crashed", Codes: []int{10}, Outcome: OutcomeRetry, Reason: "browser_crashed"},
	{Name: "browsertrix.proxy", Codes: []int{21}, Outcome: OutcomeInfra, Reason: "proxy"},
	{Name: "browsertrix.upload", Codes: []int{22}, Outcome: OutcomeRetry, Reason: "upload"},
	{Name: "browsertrix.failed", Codes: []int{1, 9, 17}, Outcome: OutcomeRetry},
}

var browsertrixErrors = []Pattern{
	{Pattern: `(?i)"message":"[^"]*(?:timeout|timed out)`, Count: countTimeout},
	{Pattern: `"(?:status|statusCode)":\s*(?:5\d\d|429)\b|net::ERR_(?:HTTP|INVALID_RESPONSE)`, Count: countHTTP},
	{Pattern: `"logLevel":"error"`, Count: countOther},
	{Pattern: `"limit":\{"max":\d+,"hit":true\}`, Count: "limit"},
}

// browsertrix-crawler 1.x logs JSON lines; its codes are documented.
var browsertrix = preset{
	name: "browsertrix-crawler", version: 1, counter: "pages",
	sources: []Source{{Kind: "json", Field: "details.crawled", Count: "pages"}},
	errors:  browsertrixErrors, exit: browsertrixExit,
	outputs: []outputFlag{{names: []string{"--collection", "-c"}}},
	workers: []string{"--workers", "-w"},
}

// zimit 2.x runs browsertrix-crawler and passes most of its codes on; its own
// flags are read by argparse, which exits with 2.
var zimit = preset{
	name: "zimit", version: 1, counter: "pages",
	sources: []Source{{Kind: "json", Field: "details.crawled", Count: "pages"}},
	errors:  browsertrixErrors,
	exit: append([]ExitRule{
		{Name: "zimit.usage", Codes: []int{2}, Outcome: OutcomeConfig, Reason: ReasonConfig},
		{Name: "zimit.unrecognized", Log: notRecognised, Codes: nonZero, Outcome: OutcomeConfig, Reason: ReasonConfig},
	}, browsertrixExit...),
	outputs: []outputFlag{{names: []string{"--output"}, dir: true}},
	workers: []string{"--workers", "-w"},
}

// curl's codes are its own; a transfer goes on with --continue-at -. Its meter
// is drawn anew also when nothing comes in: only what it has written counts.
var curl = preset{
	name: "curl", version: 1, counter: "bytes",
	files: []string{"-o", "--output"},
	outputs: []outputFlag{
		{names: []string{"-o", "--output"}, file: true, keep: []string{"-C", "--continue-at"}},
		{
			names: []string{"--output-dir"}, dir: true, missing: "--output-dir={out}", keep: []string{"-C", "--continue-at"},
			only: []string{"-O", "--remote-name", "--remote-name-all", "-J", "--remote-header-name"},
		},
	},
	workers: []string{"--parallel-max"},
	errors: []Pattern{
		{Pattern: `(?i)timed out|timeout`, Count: countTimeout},
		{Pattern: `returned error: (?:5\d\d|429)`, Count: countHTTP},
		{Pattern: `curl: \(`, Count: countOther},
	},
	exit: []ExitRule{
		{Name: "curl.usage", Codes: []int{2, 3, 26, 37, 41, 43, 45, 48, 53, 58, 66}, Outcome: OutcomeConfig, Reason: ReasonConfig},
		{Name: "curl.disk_full", Log: diskFull, Codes: []int{23}, Outcome: OutcomeDisk},
		{Name: "curl.write", Codes: []int{23}, Outcome: OutcomeInfra},
		{Name: "curl.throttled", Codes: []int{22}, Log: `returned error: 429`, Outcome: OutcomeRateLimited},
		{Name: "curl.server", Codes: []int{22}, Log: `returned error: 5\d\d`, Outcome: OutcomeRetry, Reason: "http"},
		{Name: "curl.rejected", Codes: []int{22, 47, 63, 67, 78}, Outcome: OutcomeFatal, Reason: "rejected"},
		{Name: "curl.timeout", Codes: []int{28}, Outcome: OutcomeRetry, Reason: "timeout"},
		{Name: "curl.network", Codes: []int{5, 6, 7, 16, 18, 35, 52, 55, 56, 92, 95}, Outcome: OutcomeRetry, Reason: "network"},
	},
}

// rsync's partial transfers (23, 24) are tried again: what is there already is
// not sent twice.
var rsync = preset{
	name: "rsync", version: 1, counter: "files",
	sources: []Source{{Kind: "lines", From: "stdout", Pattern: `\S`, Count: "files"}},
	errors: []Pattern{
		{Pattern: `(?i)timed out|timeout`, Count: countTimeout},
		{Pattern: `rsync error:`, Count: countOther},
	},
	exit: []ExitRule{
		{Name: "rsync.usage", Codes: []int{1, 2, 3, 4, 6}, Outcome: OutcomeConfig, Reason: ReasonConfig},
		{Name: "rsync.disk_full", Log: diskFull, Codes: nonZero, Outcome: OutcomeDisk},
		{Name: "rsync.file", Codes: []int{11}, Outcome: OutcomeInfra},
		{Name: "rsync.memory", Codes: []int{22}, Outcome: OutcomeInfra},
		{Name: "rsync.limit", Codes: []int{25}, Outcome: OutcomePartial, Reason: "limit"},
		{Name: "rsync.timeout", Codes: []int{30, 35}, Outcome: OutcomeRetry, Reason: "timeout"},
		{Name: "rsync.vanished", Codes: []int{24}, Outcome: OutcomeSuccess},
		{Name: "rsync.partial", Codes: []int{23}, Outcome: OutcomeRetry, Reason: "files_lost"},
		{Name: "rsync.network", Codes: []int{5, 10, 12, 14, 20, 21, 255}, Outcome: OutcomeRetry, Reason: "network"},
	},
}

// ebb fetch keeps a ledger of its own in its directory: a further attempt goes
// on there. What it has finished is in its lines and its exit code.
var ebbFetch = preset{
	name: "ebb-fetch", version: 1, counter: "pages",
	sources: []Source{
		{Kind: "lines", Pattern: `\b(?P<n>\d+) done, \d+ failed, \d+ left`, Count: "pages"},
		{Kind: "lines", Pattern: `^pages\s+\d+, here (?P<n>\d+)`, Count: "pages"},
		{Kind: "json", Field: "progress.done", Count: "pages"},
	},
	exit: []ExitRule{
		{Name: "ebb-fetch.usage", Codes: []int{2}, Outcome: OutcomeConfig, Reason: ReasonConfig},
		{Name: "ebb-fetch.incomplete", Codes: []int{3}, Outcome: OutcomeRetry, Reason: "pages_lost"},
		{Name: "ebb-fetch.parked", Codes: []int{4}, Outcome: OutcomeFatal, Reason: "parked"},
	},
	workers: []string{"--concurrency"},
}
