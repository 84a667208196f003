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

func textLimits(l Limits) text.Limits {
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

// hashOf names a pipeline by its content.
func hashOf(p *Pipeline) string {
	b, err := json.Marshal(p)
	if err != nil {
		b = []byte(fmt.Sprint(p)) // a schema that is no JSON; it was refused before
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// prepare checks a pipeline, whatever the providers are.
func prepare(p *Pipeline) (*ready, error) {
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
