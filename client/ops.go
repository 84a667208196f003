package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/engine"
)

const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
)

// under makes a path of names, each one segment whatever is in it.
func under(parts ...string) string {
	path := "/v1"
	for _, p := range parts {
		path += "/" + strings.ReplaceAll(url.PathEscape(p), ".", "%2E")
	}
	return path
}

// Enqueue adds the jobs, all or none.
func (c *Client) Enqueue(ctx context.Context, jobs ...engine.NewJob) ([]engine.Enqueued, error) {
	in := struct {
		Jobs []engine.NewJob `json:"jobs"`
	}{append([]engine.NewJob{}, jobs...)}
	var out struct{ Jobs []engine.Enqueued }
	err := c.ask(ctx, post, "/v1/jobs/batch", nil, in, &out)
	return out.Jobs, err
}

// Job returns one job.
func (c *Client) Job(ctx context.Context, id string) (out engine.Job, err error) {
	err = c.ask(ctx, get, under("jobs", id), nil, nil, &out)
	return out, err
}

// Attempts returns the ledger of a job.
func (c *Client) Attempts(ctx context.Context, id string) ([]engine.Attempt, error) {
	var out struct{ Attempts []engine.Attempt }
	err := c.ask(ctx, get, under("jobs", id, "attempts"), nil, nil, &out)
	return out.Attempts, err
}

// Jobs lists from newest to oldest.
func (c *Client) Jobs(ctx context.Context, f engine.Filter, p engine.Page) (engine.Jobs, error) {
	return c.list(ctx, "/v1/jobs", f, p)
}

// list asks on until the part is as long as asked for: the server looks at so
// many jobs an answer, whether the filter selects them or not.
func (c *Client) list(ctx context.Context, path string, f engine.Filter, p engine.Page) (engine.Jobs, error) {
	want := p.Limit
	if want == 0 {
		want = engine.DefaultLimit
	}
	all := engine.Jobs{Jobs: []engine.Job{}}
	for {
		var part engine.Jobs
		if err := c.ask(ctx, get, path, bounded(selected(f), p), nil, &part); err != nil {
			return all, err
		}
		all.Jobs, all.Next = append(all.Jobs, part.Jobs...), part.Next
		if part.Next == "" || len(all.Jobs) >= want || p.Rows > 0 {
			return all, nil
		}
		p.Cursor, p.Limit = part.Next, want-len(all.Jobs)
	}
}

// Recent tells how the jobs that ended lately ended.
func (c *Client) Recent(ctx context.Context, queues []string) (out engine.Recent, err error) {
	err = c.ask(ctx, get, "/v1/recent", url.Values{"queue": queues}, nil, &out)
	return out, err
}

// Workers lists the registered processes.
func (c *Client) Workers(ctx context.Context) ([]engine.Worker, error) {
	var out struct{ Workers []engine.Worker }
	err := c.ask(ctx, get, "/v1/workers", nil, nil, &out)
	return out.Workers, err
}

// Why tells why a job is where it is.
func (c *Client) Why(ctx context.Context, id string) (out engine.Why, err error) {
	err = c.ask(ctx, get, under("jobs", id, "why"), nil, nil, &out)
	return out, err
}

// Retry queues a failed or parked job again, or makes a waiting one due now.
func (c *Client) Retry(ctx context.Context, id string) (out engine.Job, err error) {
	err = c.ask(ctx, post, under("jobs", id, "retry"), nil, nil, &out)
	return out, err
}

// Cancel ends a waiting job and orders a running one to stop.
func (c *Client) Cancel(ctx context.Context, id string) (out engine.Job, err error) {
	err = c.ask(ctx, post, under("jobs", id, "cancel"), nil, nil, &out)
	return out, err
}

// Dead lists dead letters or parked jobs.
func (c *Client) Dead(ctx context.Context, f engine.Filter, p engine.Page) (engine.Jobs, error) {
	return c.list(ctx, "/v1/dead", f, p)
}

// Groups gathers dead letters by what went wrong.
func (c *Client) Groups(ctx context.Context, f engine.Filter, p engine.Page) ([]engine.Group, error) {
	var out struct{ Groups []engine.Group }
	err := c.ask(ctx, get, "/v1/dead/groups", bounded(selected(f), engine.Page{Limit: p.Limit}), nil, &out)
	return out.Groups, err
}

// Redrive orders dead letters or parked jobs to be queued again.
func (c *Client) Redrive(ctx context.Context, o engine.Order) (out engine.Redrive, err error) {
	err = c.ask(ctx, post, "/v1/redrives", nil, o, &out)
	return out, err
}

// FinishRedrive sees an order through: the server goes on with it as long as
// somebody asks, and tells how far it is.
func (c *Client) FinishRedrive(ctx context.Context, id string, progress func(engine.Redrive)) (engine.Redrive, error) {
	for {
		var out engine.Redrive
		if err := c.ask(ctx, post, under("redrives", id, "finish"), nil, nil, &out); err != nil {
			return out, err
		}
		if progress != nil {
			progress(out)
		}
		if out.Done() {
			return out, nil
		}
	}
}

// Redrives lists the unfinished, oldest first, then the newest done.
func (c *Client) Redrives(ctx context.Context, limit int) ([]engine.Redrive, error) {
	var out struct{ Redrives []engine.Redrive }
	err := c.ask(ctx, get, "/v1/redrives", bounded(url.Values{}, engine.Page{Limit: limit}), nil, &out)
	return out.Redrives, err
}

// Acts lists what was ordered and by whom, newest first.
func (c *Client) Acts(ctx context.Context, limit int) ([]engine.Act, error) {
	var out struct{ Acts []engine.Act }
	err := c.ask(ctx, get, "/v1/audit", bounded(url.Values{}, engine.Page{Limit: limit}), nil, &out)
	return out.Acts, err
}

// Policies lists the policies known to the server.
func (c *Client) Policies(ctx context.Context) ([]engine.Policy, error) {
	var out struct{ Policies []engine.Policy }
	err := c.ask(ctx, get, "/v1/policies", nil, nil, &out)
	return out.Policies, err
}

// selected writes a filter as query parameters.
func selected(f engine.Filter) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"state": string(f.State), "cause": string(f.Cause), "kind": f.Kind, "queue": f.Queue, "target": f.Target,
		"batch": f.Batch, "class": f.Class, "fingerprint": f.Fingerprint, "key": f.Key, "since": instant(f.Since), "until": instant(f.Until),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, id := range f.IDs {
		q.Add("id", id)
	}
	return q
}

// bounded adds a page.
func bounded(q url.Values, p engine.Page) url.Values {
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Held {
		q.Set("held", "true")
	}
	return q
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
