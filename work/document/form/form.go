// Package form is what is asked and answered about documents: plain values and
// the interface Ops, without anything that does the work. Who asks a server
// compiles neither object stores nor PDFs.
package form

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/document/model"
	"github.com/ebbhq/ebb/work/document/normalise"
)

// Ops is everything that can be asked and ordered of documents. Package
// document implements it over a store, package client over HTTP. Errors wrap
// those of package engine where the caller is at fault.
type Ops interface {
	Submit(ctx context.Context, in Submission) (Batch, error)
	// Batches lists from newest to oldest.
	Batches(ctx context.Context, limit int) ([]Batch, error)
	// Documents lists a batch in its order, or all from newest to oldest.
	Documents(ctx context.Context, f Filter) (Documents, error)
	Document(ctx context.Context, id string) (Document, error)
	// Result returns the result object of a document that is done.
	Result(ctx context.Context, id string) (json.RawMessage, error)
	// Raw returns what is kept of an answer that was refused.
	Raw(ctx context.Context, id string) (RawAnswer, error)
	// DropRaw forgets it.
	DropRaw(ctx context.Context, id string) error
	// Requeue queues failed and parked documents again, with fresh attempts.
	Requeue(ctx context.Context, o Selection) (Requeued, error)
	// Usage tells what was asked from one day to another, both included (UTC).
	Usage(ctx context.Context, from, to string) ([]Spent, error)
}

// ErrDenied is of a bucket that the server's settings do not list.
var ErrDenied = errors.New("not below a bucket of this server's settings")

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

// Submission is documents to process.
type Submission struct {
	Pipeline
	// Inputs are URLs of objects or patterns: s3://BUCKET/in/*.pdf?region=…,
	// file:///DIR/**/*.txt.
	Inputs []string `json:"inputs"`
	// Output is where results go: a bucket and a prefix. The result of KEY is
	// KEY.json.
	Output string `json:"output"`
	// Priority of the jobs: 0 goes first, 9 last.
	Priority int `json:"priority,omitempty"`
}

// Batch is documents that were submitted together.
type Batch struct {
	ID          string    `json:"id"`
	Name        string    `json:"name,omitempty"` // of the pipeline
	Model       string    `json:"model"`
	Policy      string    `json:"policy"`
	Documents   int       `json:"documents"`
	SubmittedAt time.Time `json:"submitted_at"`
	Output      string    `json:"output"`
}

// Filter selects documents.
type Filter struct {
	Batch  string // empty = all
	State  string // empty = any
	Cursor string // Next of the part before
	Limit  int    // 1 to 1000; 0 = 50
}

// Documents is a part of a list.
type Documents struct {
	Documents []Document `json:"documents"`
	// Next is the cursor of the part that follows; empty = there is none.
	Next string `json:"next,omitempty"`
}

// Document is everything remembered of one.
type Document struct {
	ID    string    `json:"id"`
	Batch string    `json:"batch"`
	Job   string    `json:"job,omitempty"`
	State job.State `json:"state"` // of its job; succeeded once its row says so
	Cause job.Cause `json:"cause,omitempty"`
	// Stage is the first one that is not finished.
	Stage       Stage     `json:"stage"`
	DueAt       time.Time `json:"due_at,omitzero"` // of the next start, while it waits
	SubmittedAt time.Time `json:"submitted_at"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	Input       string    `json:"input"`
	Output      string    `json:"output"`
	Model       string    `json:"model"`
	Policy      string    `json:"policy,omitempty"`
	Attempts    int       `json:"attempts"`
	Class       string    `json:"class,omitempty"` // of the last failure
	Error       string    `json:"error,omitempty"`
	// Invalid is why the last answer was refused, Raw how much of it is kept.
	Invalid    string           `json:"invalid,omitempty"`
	Raw        int              `json:"raw_bytes,omitempty"`
	Normalised []normalise.Step `json:"normalised,omitempty"`
	Calls      int              `json:"calls"` // of the model, that were answered
	model.Usage
	Cost float64 `json:"cost"` // dollars
}

// RawAnswer is what is kept of an answer that was refused.
type RawAnswer struct {
	Document  string    `json:"document"`
	At        time.Time `json:"at"`
	Reason    string    `json:"reason"`
	Error     string    `json:"error"`
	Model     string    `json:"model,omitempty"`
	Request   string    `json:"request,omitempty"`
	Text      string    `json:"text"`
	Cut       bool      `json:"cut,omitempty"`      // there was more
	Redacted  int       `json:"redacted,omitempty"` // places where something was taken out
	ExpiresAt time.Time `json:"expires_at"`
}

// Selection says which documents are queued again: these, or all of a batch
// that are in the state.
type Selection struct {
	IDs   []string `json:"ids,omitempty"`
	Batch string   `json:"batch,omitempty"`
	// State is failed (the default) or parked.
	State string `json:"state,omitempty"`
}

// Requeued is what was queued again.
type Requeued struct {
	Documents []string `json:"documents"`
}

// Spent is what was asked of one model on one day (UTC).
type Spent struct {
	Day      string  `json:"day"` // 2026-02-21
	Provider string  `json:"provider"`
	Model    string  `json:"model"`
	Calls    int64   `json:"calls"`
	Input    int64   `json:"input_tokens"`
	Output   int64   `json:"output_tokens"`
	Cost     float64 `json:"cost"` // dollars
}

// Stage is a part of a document's way; a start begins at the first unfinished
// one.
type Stage string

const (
	StageRead     Stage = "read"     // the object is read, its text taken out
	StageModel    Stage = "model"    // the model is asked; the answer is kept
	StageValidate Stage = "validate" // the answer is normalised and checked
	StageWrite    Stage = "write"    // the result object is written
	StageRow      Stage = "row"      // the document's row says that it is done
	StageDone     Stage = "done"
)
