package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

// maxRuns bounds a list, and listPage one question of it to the store.
const (
	maxRuns  = 10_000
	listPage = 500
)

// List returns the runs by name.
func (s *Service) List(ctx context.Context) ([]Run, error) {
	return s.list(ctx, func(*Spec) bool { return true })
}

// list returns the runs whose spec is wanted, in few questions however many
// there are.
func (s *Service) list(ctx context.Context, want func(*Spec) bool) ([]Run, error) {
	records, err := s.records(ctx, specRecord)
	if err != nil {
		return nil, err
	}
	specs := make([]Spec, 0, len(records))
	for _, rec := range records {
		var spec Spec
		if err := json.Unmarshal(rec.Body, &spec); err != nil {
			return nil, fmt.Errorf("supervise: run %s: its record cannot be read: %w", rec.ID, err)
		}
		if want(&spec) {
			specs = append(specs, spec)
		}
	}
	list := make([]Run, 0, len(specs))
	if len(specs) == 0 {
		return list, nil
	}
	statuses, err := s.statuses(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := s.newestJobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		j, ok := jobs[spec.Name]
		if !ok { // the pointer is missing, or points to a job that is gone
			if j, err = s.lastJob(ctx, spec.Name); err != nil {
				return nil, err
			}
		}
		list = append(list, s.compose(spec, statuses[spec.Name], j))
	}
	return list, nil
}

// records reads all records of a kind, by id.
func (s *Service) records(ctx context.Context, kind string) ([]store.Record, error) {
	var all []store.Record
	for after := ""; len(all) < maxRuns; {
		page, err := s.config.Store.Records(ctx, store.RecordFilter{Kind: kind, After: after, Limit: listPage})
		if err != nil {
			return nil, fmt.Errorf("supervise: runs: %w", err)
		}
		all = append(all, page...)
		if len(page) < listPage {
			break
		}
		after = page[len(page)-1].ID
	}
	return all, nil
}

func (s *Service) statuses(ctx context.Context) (map[string]Status, error) {
	records, err := s.records(ctx, statusRecord)
	if err != nil {
		return nil, err
	}
	all := make(map[string]Status, len(records))
	for _, rec := range records {
		var st Status
		if err := json.Unmarshal(rec.Body, &st); err != nil {
			return nil, fmt.Errorf("supervise: run %s: its status cannot be read: %w", rec.ID, err)
		}
		all[rec.ID] = st
	}
	return all, nil
}

// newestJobs are the jobs that runs point to.
func (s *Service) newestJobs(ctx context.Context) (map[string]*job.Job, error) {
	records, err := s.records(ctx, jobRecord)
	if err != nil {
		return nil, err
	}
	names := make(map[int64]string, len(records))
	var seqs []int64
	for _, rec := range records {
		if seq, err := strconv.ParseInt(string(rec.Body), 10, 64); err == nil {
			names[seq] = rec.ID
			seqs = append(seqs, seq)
		}
	}
	all := make(map[string]*job.Job, len(seqs))
	for chunk := range slices.Chunk(seqs, listPage) {
		jobs, err := s.config.Store.List(ctx, store.Filter{Seqs: chunk}, store.Page{Limit: listPage})
		if err != nil {
			return nil, fmt.Errorf("supervise: runs: %w", err)
		}
		for i := range jobs {
			all[names[jobs[i].Seq]] = &jobs[i]
		}
	}
	return all, nil
}
