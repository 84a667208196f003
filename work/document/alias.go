package document

import "github.com/ebbhq/ebb/work/document/form"

type (
	// Ops is form.Ops.
	Ops = form.Ops
	// Submission is form.Submission.
	Submission = form.Submission
	// Pipeline is form.Pipeline.
	Pipeline = form.Pipeline
	// Limits is form.Limits.
	Limits = form.Limits
	// Batch is form.Batch.
	Batch = form.Batch
	// Filter is form.Filter.
	Filter = form.Filter
	// Documents is form.Documents.
	Documents = form.Documents
	// Document is form.Document.
	Document = form.Document
	// RawAnswer is form.RawAnswer.
	RawAnswer = form.RawAnswer
	// Selection is form.Selection.
	Selection = form.Selection
	// Requeued is form.Requeued.
	Requeued = form.Requeued
	// Spent is form.Spent.
	Spent = form.Spent
	// Stage is form.Stage.
	Stage = form.Stage
)

// Stages of a document's way.
const (
	StageRead     = form.StageRead
	StageModel    = form.StageModel
	StageValidate = form.StageValidate
	StageWrite    = form.StageWrite
	StageRow      = form.StageRow
	StageDone     = form.StageDone
)

// ErrDenied is of a bucket that the server's settings do not list.
var ErrDenied = form.ErrDenied
