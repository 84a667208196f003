package supervise

import (
	"context"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// Ops is what can be asked of runs. *Service answers.
type Ops interface {
	List(ctx context.Context) ([]Run, error)
	Show(ctx context.Context, name string) (Run, error)
	Log(ctx context.Context, name string, n int64) (stdout, stderr string, err error)
	Submit(ctx context.Context, now time.Time, list ...Submission) ([]store.Enqueued, error)
	Change(ctx context.Context, now time.Time, actor string, spec Spec) (job.State, error)
	Release(ctx context.Context, now time.Time, actor, name string) error
}

var _ Ops = (*Service)(nil)
