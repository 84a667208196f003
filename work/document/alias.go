package document

import "github.com/ebbhq/ebb/work/document/form"

// Ops and the others are what is asked and answered; package form has them.
type (
	Ops        = form.Ops
	Submission = form.Submission
	Pipeline   = form.Pipeline
	Limits     = form.Limits
	Batch      = form.Batch
	Filter     = form.Filter
	Documents  = form.Documents
	Document   = form.Document
	RawAnswer  = form.RawAnswer
	Selection  = form.Selection
	Requeued   = form.Requeued
	Spent      = form.Spent
	Stage      = form.Stage
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
