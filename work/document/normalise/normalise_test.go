package normalise_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ebbhq/ebb/work/document/normalise"
)

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		answer, want string
		steps        []normalise.Step
	}{
		{`{"a": 1}`, `{"a": 1}`, nil},
		{"  [1, 2]\n", `[1, 2]`, nil},
		{`"plain"`, `"plain"`, nil},
		{"\ufeff{}", `{}`, []normalise.Step{normalise.Mark}},
		{"```json\n{\"a\": 1}\n```", `{"a": 1}`, []normalise.Step{normalise.Fence}},
		{"```\n[1]\n```\n", `[1]`, []normalise.Step{normalise.Fence}},
		{"```{\"a\":1}```", `{"a":1}`, []normalise.Step{normalise.Fence}},
		{"Here it is:\n```json\n{\"a\": 1,}\n```\nAnything else?", `{"a": 1}`, []normalise.Step{normalise.Fence, normalise.TrailingComma}},
		{"```json\n{\"a\": 1}", `{"a": 1}`, []normalise.Step{normalise.Fence}},
		{`Sure! {"a": 1}`, `{"a": 1}`, []normalise.Step{normalise.Prefix}},
		{`{"a": 1} Done.`, `{"a": 1}`, []normalise.Step{normalise.Suffix}},
		{`See [below]: {"a": [1, 2, ], } ok`, `{"a": [1, 2 ] }`, []normalise.Step{normalise.Prefix, normalise.Suffix, normalise.TrailingComma}},
		{`{"a": 1,}`, `{"a": 1}`, []normalise.Step{normalise.TrailingComma}},
		{`{"a": ",}", "b": "\",]",}`, `{"a": ",}", "b": "\",]"}`, []normalise.Step{normalise.TrailingComma}},
		{"{\"a\": \"```\"}", "{\"a\": \"```\"}", nil},
	} {
		got, steps, err := normalise.JSON(c.answer)
		if err != nil || string(got) != c.want || !reflect.DeepEqual(steps, c.steps) {
			t.Errorf("%q: %s %v %v; want %s %v", c.answer, got, steps, err, c.want, c.steps)
		}
	}
}

func TestJSONRefuses(t *testing.T) {
	for answer, why := range map[string]string{
		"":                          "the answer is empty",
		"I cannot help with that.":  "the answer holds no JSON object",
		`{"a": 1`:                   "the JSON breaks off",
		`{"a": 1} and {"a": 2}`:     "the answer holds more than one JSON value",
		`{a: 1}`:                    "invalid character 'a' looking for beginning of object key string",
		`{"a": 1,,}`:                "invalid character ',' looking for beginning of object key string",
		`{"a": 1, "a": 2}`:          "an object names a field twice",
		`text {"a": {"b":1,"b":2}}`: "an object names a field twice",
	} {
		got, steps, err := normalise.JSON(answer)
		if !errors.Is(err, normalise.ErrUnparseable) || !strings.Contains(fmt.Sprint(err), why) || got != nil || steps != nil {
			t.Errorf("%q: %s %v %v; want %s", answer, got, steps, err, why)
		}
	}
}

// value draws any JSON object.
func value() *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Int32(), func(n int32) any { return float64(n) }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
	)
	return rapid.Map(rapid.MapOfN(rapid.String(), rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(leaf, 0, 3), func(l []any) any { return l })), 0, 4),
		func(m map[string]any) any { return m })
}

// TestWrapped: whatever stands around an object, the object comes out.
func TestWrapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, err := json.Marshal(value().Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		answer := string(want)
		if rapid.Bool().Draw(t, "comma") && answer != "{}" {
			answer = strings.TrimSuffix(answer, "}") + " ,\n}"
		}
		if rapid.Bool().Draw(t, "fence") {
			answer = "```json\n" + answer + "\n```"
		}
		words := rapid.StringMatching(`[A-Za-z ,.:!]*`)
		answer = words.Draw(t, "before") + "\n" + answer + "\n" + words.Draw(t, "after")
		got, _, err := normalise.JSON(answer)
		if err != nil {
			t.Fatalf("%q: %v", answer, err)
		}
		var a, b any
		if json.Unmarshal(got, &a) != nil || json.Unmarshal(want, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%q: %s, want %s", answer, got, want)
		}
	})
}

// FuzzJSON: what comes out is JSON, and normalising it again changes nothing.
func FuzzJSON(f *testing.F) {
	f.Add("```json\n{\"a\": 1,}\n```")
	f.Add(`x {"a": [1,]} y`)
	f.Fuzz(func(t *testing.T, answer string) {
		got, _, err := normalise.JSON(answer)
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q: %s", answer, got)
		}
		again, steps, err := normalise.JSON(string(got))
		if err != nil || string(again) != string(got) || len(steps) != 0 {
			t.Fatalf("%q: %s, again %s %v %v", answer, got, again, steps, err)
		}
	})
}
