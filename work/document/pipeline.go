package document

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/work/document/text"
)

// Pipeline is what is done to each document of a batch. It is kept once, by
// the hash of its content, and never changes: a later one is another.
type Pipeline struct {
	Name string `json:"name,omitempty"`
	// Model is PROVIDER/MODEL, such as openai/gpt-4.1-mini.
	Model string `json:"model"`
	// System is said before the prompt; empty = nothing is.
	System string `json:"system,omitempty"`
	// Prompt is a template: {{.Text}} is the document's text, {{.Name}} its
	// key, {{.Schema}} the schema. Where it does not use .Text, the text
	// follows it.
	Prompt string `json:"prompt"`
	// Schema is a JSON Schema (2020-12) that every answer must pass.
	Schema json.RawMessage `json:"schema"`
	// Policy of the jobs; empty = processing.
	Policy string `json:"policy,omitempty"`
	Limits Limits `json:"limits,omitzero"`
	// Temperature of the model; nil = the provider's own.
	Temperature *float64 `json:"temperature,omitempty"`
}

// Limits bound one document. Zero parts take the defaults named here.
type Limits struct {
	MaxBytes        int64 `json:"max_bytes,omitempty" yaml:"max_bytes"`                 // of the object; 20 MiB
	MaxText         int   `json:"max_text,omitempty" yaml:"max_text"`                   // bytes of its text; 1 MiB
	MaxPages        int   `json:"max_pages,omitempty" yaml:"max_pages"`                 // of a PDF; 500
	MaxOutputTokens int   `json:"max_output_tokens,omitempty" yaml:"max_output_tokens"` // of the answer; the provider's own
}

func (l Limits) text() text.Limits {
	return text.Limits{MaxBytes: l.MaxBytes, MaxText: l.MaxText, MaxPages: l.MaxPages}.Fill()
}

// ready is a pipeline with its parts made ready for use.
type ready struct {
	Pipeline
	provider string
	model    string
	prompt   *template.Template
	usesText bool
	schema   *jsonschema.Schema
}

// hash names a pipeline by its content.
func (p *Pipeline) hash() string {
	b, err := json.Marshal(p)
	if err != nil {
		b = []byte(fmt.Sprint(p)) // a schema that is no JSON; it was refused before
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// Check says what is wrong with a pipeline, whatever the providers are.
func (p *Pipeline) Check() error {
	_, err := p.prepare()
	return err
}

func (p *Pipeline) prepare() (*ready, error) {
	r := &ready{Pipeline: *p}
	var ok bool
	if r.provider, r.model, ok = strings.Cut(p.Model, "/"); !ok || r.provider == "" || r.model == "" {
		return nil, invalidf("document: model %q: want PROVIDER/MODEL, such as openai/gpt-4.1-mini", p.Model)
	}
	if strings.TrimSpace(p.Prompt) == "" {
		return nil, invalidf("document: the prompt is empty")
	}
	var err error
	if r.prompt, err = template.New("prompt").Option("missingkey=error").Parse(p.Prompt); err != nil {
		return nil, invalidf("document: prompt: %v", err)
	}
	const probe = "\x00text\x00"
	out, err := r.render(probe, "name.txt")
	if err != nil {
		return nil, invalidf("document: %v; the template knows .Text, .Name and .Schema", err)
	}
	r.usesText = strings.Contains(out, probe)
	if r.schema, err = compile(p.Schema); err != nil {
		return nil, err
	}
	if p.Limits.MaxBytes < 0 || p.Limits.MaxText < 0 || p.Limits.MaxPages < 0 || p.Limits.MaxOutputTokens < 0 {
		return nil, invalidf("document: limits: must be 0 (the default) or more")
	}
	if t := p.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		return nil, invalidf("document: temperature %v: must be from 0 to 2", *t)
	}
	return r, nil
}

// compile reads a schema. It may refer to itself and to nothing outside: a
// server fetches no files or addresses for a submission.
func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	if len(bytes.TrimSpace(schema)) == 0 {
		return nil, invalidf("document: the schema is missing; {} accepts every JSON")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, invalidf("document: schema: not JSON: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	const at = "urn:ebb:schema"
	if err := c.AddResource(at, doc); err != nil {
		return nil, invalidf("document: schema: %v", err)
	}
	compiled, err := c.Compile(at)
	if err != nil {
		return nil, invalidf("document: schema: %v", err)
	}
	return compiled, nil
}

// render makes the prompt for a text.
func (r *ready) render(body, name string) (string, error) {
	var b strings.Builder
	err := r.prompt.Execute(&b, map[string]string{"Text": body, "Name": name, "Schema": string(r.Schema)})
	if err != nil {
		return "", fmt.Errorf("prompt: %w", err)
	}
	return b.String(), nil
}

// request is the question about a document.
func (r *ready) request(body, name string) (model.Request, error) {
	prompt, err := r.render(body, name)
	if err != nil {
		return model.Request{}, err
	}
	if !r.usesText {
		prompt += "\n\n<document name=\"" + name + "\">\n" + body + "\n</document>"
	}
	return model.Request{
		Model: r.model, System: r.System, Prompt: prompt, MaxTokens: r.Limits.MaxOutputTokens, Temp: r.Temperature,
		Schema: r.Schema, Name: r.Name,
	}, nil
}

// validate checks an answer against the schema.
func (r *ready) validate(value json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return r.schema.Validate(v)
}
