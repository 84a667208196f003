// Package queue runs one load over any queue: the Go systems under test
// implement Queue, Runner answers the benchmark's requests with it.
package queue

import (
	"context"
	"strconv"
	"time"
)

// Queue is a system under test.
type Queue interface {
	// Setup connects and creates the schema in an empty database.
	Setup(ctx context.Context, dsn string) error
	// Insert enqueues one batch in one transaction.
	Insert(ctx context.Context, jobs []Job) error
	// Work starts workers that give each job to handle; stop waits until all
	// results are written. A job whose handle fails is retried without delay.
	Work(ctx context.Context, workers int, handle Handler) (stop func() error, err error)
	// Left reports whether a due job is not durably done yet.
	Left(ctx context.Context) (bool, error)
	Close()
}

// Handler does one job's work.
type Handler func(ctx context.Context, args []byte) error

// Job is one to enqueue. Args are a JSON object with one number.
type Job struct {
	Args []byte
	Due  time.Time // zero = now
}

// AllWorkers is how many jobs may run at once where the load does not say.
const AllWorkers = 1000

// number writes the arguments of a job.
func number(n int64) []byte {
	return append(strconv.AppendInt([]byte(`{"n": `), n, 10), '}')
}

// numberOf reads them back, whatever space the database put in between.
func numberOf(args []byte) int64 {
	var n int64
	for _, c := range args {
		if c >= '0' && c <= '9' {
			n = n*10 + int64(c-'0')
		}
	}
	return n
}
