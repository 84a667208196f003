package campaign

import (
	"context"
	"fmt"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise"
)

// Status is how a campaign stands.
type Status struct {
	Campaign    string         `json:"campaign" doc:"the file's name with the year"`
	Name        string         `json:"name" doc:"of the file"`
	Year        int            `json:"year"`
	State       string         `json:"state" doc:"waiting, running, parked, failed, incomplete or done"`
	Queue       string         `json:"queue"`
	Policy      string         `json:"policy"`
	ScheduledAt time.Time      `json:"scheduled_at"`
	Lock        *Lock          `json:"lock,omitempty" doc:"holds recover back"`
	Limits      Limits         `json:"recover"`
	Sources     []SourceStatus `json:"sources" doc:"in the order in which they are crawled"`
	Recoveries  []Recovery     `json:"recoveries,omitempty" doc:"newest last"`
}

// SourceStatus is how one source stands.
type SourceStatus struct {
	Place    int           `json:"place"`
	Source   string        `json:"source"`
	QueuedAt time.Time     `json:"queued_at"`
	Run      supervise.Run `json:"run"`
}

// Done counts the sources that are proven to be done.
func (s Status) Done() int {
	n := 0
	for i := range s.Sources {
		if s.Sources[i].Run.State == job.Succeeded {
			n++
		}
	}
	return n
}

// Show tells how a campaign stands, by its name with the year, or without it
// for the newest year; store.ErrNotFound if there is none.
func (s *Service) Show(ctx context.Context, name string) (Status, error) {
	r, err := s.load(ctx, name)
	if err != nil {
		return Status{}, err
	}
	return s.describe(ctx, r)
}

// List tells how the campaigns stand, by name and year.
func (s *Service) List(ctx context.Context) ([]Status, error) {
	records, err := s.store.Records(ctx, store.RecordFilter{Kind: recordKind, Limit: maxCampaigns})
	if err != nil {
		return nil, fmt.Errorf("campaigns: %w", err)
	}
	all := make([]*record, len(records))
	var names []string
	for i := range records {
		if all[i], err = decode(&records[i]); err != nil {
			return nil, err
		}
		names = append(names, all[i].runs()...)
	}
	runs, err := s.look(ctx, names)
	if err != nil {
		return nil, err
	}
	list := make([]Status, 0, len(all))
	for _, r := range all {
		st, err := s.standing(ctx, r, runs)
		if err != nil {
			return nil, err
		}
		list = append(list, st)
	}
	return list, nil
}

func (r *record) runs() []string {
	names := make([]string, len(r.Sources))
	for i := range r.Sources {
		names[i] = r.Sources[i].Run
	}
	return names
}

func (s *Service) describe(ctx context.Context, r *record) (Status, error) {
	runs, err := s.look(ctx, r.runs())
	if err != nil {
		return Status{}, err
	}
	return s.standing(ctx, r, runs)
}

// standing puts a campaign and its runs together.
func (s *Service) standing(ctx context.Context, r *record, runs map[string]*found) (Status, error) {
	st := Status{
		Campaign: ID(r.Name, r.Year), Name: r.Name, Year: r.Year, Queue: r.Queue, Policy: r.Policy,
		ScheduledAt: r.ScheduledAt, Lock: r.Lock, Limits: r.Limits, Recoveries: r.Recoveries,
		Sources: make([]SourceStatus, 0, len(r.Sources)),
	}
	for i, p := range r.Sources {
		run := supervise.Run{Name: p.Run} // a crash came between: scheduling again queues it
		if f := runs[p.Run]; f != nil {
			run = f.Run
		}
		if run.Starts > 1 || run.Starts == 1 && run.State != job.Succeeded { // a start may have failed: its ledger tells
			var err error
			if run, err = s.runs.Show(ctx, p.Run); err != nil {
				return st, err
			}
		}
		st.Sources = append(st.Sources, SourceStatus{Place: i + 1, Source: p.Name, QueuedAt: p.QueuedAt, Run: run})
	}
	st.State = st.summary()
	return st, nil
}

// summary is one word for all sources: what a person should know first.
func (s *Status) summary() string {
	n := map[job.State]int{}
	for i := range s.Sources {
		n[s.Sources[i].Run.State]++
	}
	switch {
	case n[job.Succeeded] == len(s.Sources):
		return "done"
	case n[job.Running] > 0:
		return "running"
	case n[job.Queued] > 0:
		return "waiting"
	case n[job.Parked] > 0:
		return "parked"
	case n[job.Failed] > 0:
		return "failed"
	}
	return "incomplete"
}

// Source finds how a source stands, by its name or its run's.
func (s *Status) Source(name string) (*SourceStatus, bool) {
	for i := range s.Sources {
		if o := &s.Sources[i]; o.Source == name || o.Run.Name == name {
			return o, true
		}
	}
	return nil, false
}
