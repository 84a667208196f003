package supervise

import (
	"testing"
	"time"
)

func TestExitRulesOfKnownCrawlers(t *testing.T) {
	long := 10 * time.Minute
	for _, c := range []struct {
		crawler string
		exit    Exit
		outcome Outcome
		rule    string
	}{
		{"wget", Exit{Code: 0}, OutcomeSuccess, "success"},
		{"wget", Exit{Code: 2, Tail: "wget: unrecognized option '--frob'"}, OutcomeConfig, "wget.usage"},
		{"wget", Exit{Code: 8, Counts: map[string]int64{"absent": 3}}, OutcomeSuccess, "wget.links_broken"},
		{"wget", Exit{Code: 8, Counts: map[string]int64{"open": 1, "open.http": 1}}, OutcomeRetry, "wget.pages_lost"},
		{"wget", Exit{Code: 0, Counts: map[string]int64{"open": 1, "open.timeout": 1}}, OutcomeRetry, "wget.pages_lost"},
		{"wget", Exit{Code: 8, Tail: "2026 ERROR 429: Too Many Requests.", Counts: map[string]int64{"open": 1, "open.http": 1}}, OutcomeRateLimited, "wget.throttled"},
		{"wget", Exit{Code: 3, Tail: "Cannot write to 'p1' (No space left on device)."}, OutcomeDisk, "wget.disk_full"},
		{"wget", Exit{Code: 0, Tail: "Download quota of 5K EXCEEDED!"}, OutcomePartial, "wget.quota"},
		{"wget", Exit{Code: 1, Tail: "Could not open WARC file."}, OutcomeInfra, "wget.warc"},
		{"wget", Exit{Code: 1, Tail: "Could not open WARC file.", Full: true}, OutcomeDisk, "wget.disk_full"},
		{"wget", Exit{Code: 4}, OutcomeRetry, "wget.network"},
		{"wget", Exit{Code: -1, Signal: "KILL", OOM: true}, OutcomeRetry, "oom"},
		{"wget", Exit{Code: -1, Signal: "SEGV"}, OutcomeRetry, "signal"},
		{"wget", Exit{Code: -1, Signal: signalReboot}, OutcomeInterrupted, "rebooted"},
		{"browsertrix-crawler", Exit{Code: 0}, OutcomeSuccess, "success"},
		{"browsertrix-crawler", Exit{Code: 0, Counts: map[string]int64{"limit": 1}}, OutcomePartial, "browsertrix.limit"},
		{"browsertrix-crawler", Exit{Code: 14, Ran: long}, OutcomePartial, "browsertrix.size_or_time_limit"},
		{"browsertrix-crawler", Exit{Code: 3, Ran: long}, OutcomeDisk, "browsertrix.out_of_space"},
		{"browsertrix-crawler", Exit{Code: 10, Ran: long}, OutcomeRetry, "browsertrix.browser_crashed"},
		{"zimit", Exit{Code: 2, Tail: "zimit: error: unrecognized arguments: --workerz 2"}, OutcomeConfig, "zimit.usage"},
		{"zimit", Exit{Code: 11, Ran: long}, OutcomeRetry, "browsertrix.interrupted"},
		{"curl", Exit{Code: 2}, OutcomeConfig, "curl.usage"},
		{"curl", Exit{Code: 22, Tail: "curl: (22) The requested URL returned error: 503"}, OutcomeRetry, "curl.server"},
		{"curl", Exit{Code: 22, Tail: "curl: (22) The requested URL returned error: 429"}, OutcomeRateLimited, "curl.throttled"},
		{"curl", Exit{Code: 22, Tail: "curl: (22) The requested URL returned error: 404"}, OutcomeFatal, "curl.rejected"},
		{"curl", Exit{Code: 28}, OutcomeRetry, "curl.timeout"},
		{"rsync", Exit{Code: 24}, OutcomeSuccess, "rsync.vanished"},
		{"rsync", Exit{Code: 23}, OutcomeRetry, "rsync.partial"},
		{"rsync", Exit{Code: 1}, OutcomeConfig, "rsync.usage"},
		{"generic", Exit{Code: 127}, OutcomeConfig, "not_found"},
		{"generic", Exit{Code: 1, Tail: "Permission denied"}, OutcomeInfra, "machine"},
		{"generic", Exit{Code: 1, Tail: "Permission denied", Ran: long}, OutcomeRetry, "failed"},
		{"generic", Exit{Code: 7, Tail: "unknown option --x"}, OutcomeConfig, "usage"},
		{"generic", Exit{Code: 7, Tail: "unknown option --x", Ran: long}, OutcomeRetry, "failed"},
		{"generic", Exit{Code: -1, Signal: "SIG64"}, OutcomeRetry, "failed"},
	} {
		s := Spec{Name: "x", Dir: "/x", Crawler: c.crawler, Command: Words("x")}
		s, err := Seal(s)
		if err != nil {
			t.Fatal(err)
		}
		if v := Judge(s.exitRules(), &c.exit); v.Outcome != c.outcome || v.Rule != c.rule {
			t.Errorf("%s %+v: %+v, want %s by %s", c.crawler, c.exit, v, c.outcome, c.rule)
		}
	}
}

func TestOwnRulesComeFirstAndNothingIsRetriedWithoutARule(t *testing.T) {
	rules := []ExitRule{
		{Name: "limit", Codes: []int{0}, Under: Duration(time.Minute), NoArtifacts: true, Outcome: OutcomePartial},
		{Codes: []int{0}, Unseen: []string{"bad"}, Over: Duration(time.Second), Outcome: OutcomeSuccess},
	}
	for _, c := range []struct {
		exit Exit
		want Verdict
	}{
		{Exit{Ran: time.Second}, Verdict{OutcomePartial, "limit", "limit", "exit code 0 after 1s"}},
		{Exit{Ran: time.Second, Artifacts: 1}, Verdict{OutcomeSuccess, "exit[1]", "", "exit code 0 after 1s"}},
		{Exit{Ran: time.Second, Artifacts: 1, Counts: map[string]int64{"bad": 1}}, Verdict{OutcomeFatal, "none", "unmatched", "exit code 0 after 1s, which no exit rule knows"}},
		{Exit{Ran: time.Millisecond, Artifacts: 1}, Verdict{OutcomeFatal, "none", "unmatched", "exit code 0 after 1ms, which no exit rule knows"}},
	} {
		if got := Judge(rules, &c.exit); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.exit, got, c.want)
		}
	}
}

func TestProof(t *testing.T) {
	s := Success{Units: 10, Coverage: 0.9}
	whole := Found{Artifact: Artifact{Glob: "a", Bytes: 100, WARC: true}, Files: []string{"a"}, Size: 100, Records: 3}
	for _, c := range []struct {
		proof Proof
		want  string
	}{
		{Proof{Found: []Found{whole}, Units: 90, Last: 100}, ""},
		{Proof{Units: 89, Last: 100}, "89 units are 89 % of the last run's 100, want 90 %"},
		{Proof{Units: 9}, "9 units, want 10"},
		{Proof{Units: 10, Found: []Found{{Artifact: Artifact{Glob: "b", Count: 2}, Files: []string{"b"}}}}, "1 files match b, want 2"},
		{Proof{Units: 10, Found: []Found{{Artifact: Artifact{Glob: "b"}}}}, "0 files match b, want 1"},
		{Proof{Units: 10, Found: []Found{{Artifact: Artifact{Glob: "b", Bytes: 5}, Files: []string{"b"}, Size: 4}}}, "b holds 4 bytes, want 5"},
		{Proof{Units: 10, Found: []Found{{Artifact: Artifact{Glob: "b", WARC: true}, Files: []string{"b"}}}}, "b holds no WARC record"},
		{Proof{Units: 10, Found: []Found{{Artifact: Artifact{Glob: "b", WARC: true}, Files: []string{"b"}, Records: 2, Broken: "b is torn"}}}, "b is torn"},
	} {
		got := s.prove(c.proof)
		if len(got) > 1 || len(got) == 0 != (c.want == "") || len(got) == 1 && got[0] != c.want {
			t.Errorf("%+v: %q, want %q", c.proof, got, c.want)
		}
	}
}
