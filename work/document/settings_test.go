package document_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/document"
	"github.com/ebbhq/ebb/work/document/providertest"
)

func says(text string) func(providertest.Call) providertest.Act {
	return func(providertest.Call) providertest.Act { return providertest.Act{Text: text} }
}

// TestPolicies: a provider's limits become those of a policy's target.
func TestPolicies(t *testing.T) {
	s := document.Settings{Providers: map[string]document.Provider{
		"openai": {Concurrency: 32, RequestsPerMinute: 600}, "local": {}, "slow": {RequestsPerMinute: 6},
	}}
	got, err := s.Policies([]policy.Policy{policy.MustPreset("processing"), policy.MustPreset("webhook")})
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	fast, slow := got[0], got[1]
	if fast.Name != "processing.openai" || fast.PerTarget != (policy.PerTarget{Concurrency: 32, Rate: 10}) || fast.Concurrency != 32 || fast.Attempts != 4 {
		t.Errorf("%+v", fast)
	}
	if slow.Name != "processing.slow" || slow.PerTarget.Rate != 0.1 || slow.Concurrency != 20 {
		t.Errorf("%+v", slow)
	}
	for _, p := range got {
		if err := policy.Enforce(p, time.Now()); err != nil {
			t.Error(err)
		}
	}
	for provider, want := range map[string]string{"openai": "processing.openai", "local": "processing", "none": "processing"} {
		if name := s.PolicyName("", provider); name != want {
			t.Errorf("%s: %s", provider, name)
		}
	}
}

// TestFingerprint: a new key is another configuration, and is not told.
func TestFingerprint(t *testing.T) {
	with := func(key string) string {
		return document.Settings{}.Fingerprint(func(string) (string, bool) { return key, true })
	}
	one, again, other := with("sk-1"), with("sk-1"), with("sk-2")
	if one == other || one != again || strings.Contains(one, "sk-1") {
		t.Error(one, again, other)
	}
	if (document.Settings{MaxAnswer: 5}).Fingerprint(nothing) == (document.Settings{}).Fingerprint(nothing) {
		t.Error("another setting has the same fingerprint")
	}
}

func nothing(string) (string, bool) { return "", false }

func TestSettingsRefuse(t *testing.T) {
	for want, s := range map[string]document.Settings{
		"a name without":   {Providers: map[string]document.Provider{"a/b": {BaseURL: "http://x/v1"}}},
		"base_url":         {Providers: map[string]document.Provider{"a": {}}},
		"protocol":         {Providers: map[string]document.Provider{"a": {BaseURL: "http://x/v1", Protocol: "soap"}}},
		"limits must be 0": {Providers: map[string]document.Provider{"a": {BaseURL: "http://x/v1", Concurrency: -1}}},
		"price of m":       {Providers: map[string]document.Provider{"a": {BaseURL: "http://x/v1", Prices: map[string]document.Price{"m": {Input: -1}}}}},
		"buckets":          {Buckets: []string{"docs"}},
		"raw: redact":      {Raw: document.Raw{Redact: []string{"("}}},
		"max_answer -1":    {MaxAnswer: -1},
	} {
		r := newRig(t, setup{workers: -1})
		if _, err := document.New(document.Config{Store: r.store, Settings: s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestPace: tokens a minute are kept over a batch, without spending attempts:
// a minute's worth at once, then as they flow in.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // each connection has a goroutine
		var at []time.Duration
		begin := time.Now()
		r := newRig(t, setup{
			piped:    true,
			settings: document.Settings{Providers: map[string]document.Provider{"test": {TokensPerMinute: 1000}}},
			script: func(providertest.Call) providertest.Act {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(begin))
				return providertest.Act{Text: `{"total": 7}`}
			},
		})
		in := submission()
		in.Limits.MaxOutputTokens = 200
		for i := range 20 {
			name := fmt.Sprintf("%02d.txt", i)
			r.put(name, "A")
			in.Inputs = append(in.Inputs, "s3://docs/"+name)
		}
		for _, d := range r.ended(r.submit(in)) {
			if d.State != job.Succeeded || d.Attempts != 1 {
				t.Errorf("%s: %s after %d attempts", d.ID, d.State, d.Attempts)
			}
		}
		// Each books about 235 tokens and uses about 12: what is not used is
		// given back, so the batch is faster than its bookings.
		if len(at) != 20 || at[3] > time.Second {
			t.Fatalf("asked at %v", at)
		}
		total := int64(0)
		for _, c := range r.provider.Calls() {
			total += providertest.Tokens(c.Prompt) + providertest.Tokens(`{"total": 7}`)
		}
		if last := at[len(at)-1]; last < 5*time.Second || last > 6*time.Minute {
			t.Errorf("the last of %d tokens was asked for after %s", total, last)
		}
	})
}

// TestPipelineFile: strict, with the place of what is wrong.
func TestPipelineFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("prompt.md", "Total? {{.Text}}")
	write("schema.json", schema)
	s, err := document.ReadFile(write("good.yaml", `version: 1
name: invoices
model: openai/gpt-4.1-mini
prompt_file: prompt.md
schema_file: schema.json
input: ["in/*.txt", "s3://docs/x.pdf?region=eu"]
output: out
policy: processing
temperature: 0.5
limits: {max_output_tokens: 100}
`))
	if err != nil || s.Prompt != "Total? {{.Text}}" || string(s.Schema) != schema || s.Inputs[0] != "file://"+dir+"/in/*.txt" || s.Inputs[1] != "s3://docs/x.pdf?region=eu" ||
		s.Output != "file://"+dir+"/out" || *s.Temperature != 0.5 || s.Limits.MaxOutputTokens != 100 || s.Policy != "processing" {
		t.Fatalf("%+v, %v", s, err)
	}
	inline := "version: 1\nmodel: a/b\nprompt: p\nschema: {type: object}\n"
	if s, err := document.ReadFile(write("inline.yaml", inline)); err != nil || string(s.Schema) != `{"type":"object"}` {
		t.Error(string(s.Schema), err)
	}
	for text, want := range map[string]string{
		"version: 1\nmodle: a/b\n":                                 "[2:1]",
		inline + "limits: {max_text: many}\n":                      "[5:",
		"version: 2\n":                                             "write `version: 1`",
		"version: 1\nmodel: a/b\nschema: {}\n":                     "one of prompt and prompt_file",
		"version: 1\nmodel: a/b\nprompt: p\n":                      "one of schema and schema_file",
		"version: 1\nmodel: a/b\nprompt_file: x\nschema: {a: 1}\n": "no such file",
		strings.Replace(inline, "a/b", "ab", 1):                    "want PROVIDER/MODEL",
		strings.Replace(inline, "object", "thing", 1):              "schema",
	} {
		if _, err := document.ReadFile(write("bad.yaml", text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bad.yaml") {
			t.Errorf("%q: want %q, got %v", text, want, err)
		} else if strings.HasPrefix(want, "[") && !errors.Is(err, engine.ErrInvalid) {
			t.Error(err)
		}
	}
}
