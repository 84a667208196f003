package document

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/document/model"
)

// tally is Spent as it is kept: its sums are exact.
type tally struct {
	Day      string `json:"day"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Calls    int64  `json:"calls"`
	Input    int64  `json:"input_tokens"`
	Output   int64  `json:"output_tokens"`
	Cost     money  `json:"cost"`
}

func (s *tally) spent() Spent {
	return Spent{Day: s.Day, Provider: s.Provider, Model: s.Model, Calls: s.Calls, Input: s.Input, Output: s.Output, Cost: s.Cost.dollars()}
}

func (s *tally) add(o *tally) {
	s.Calls += o.Calls
	s.Input += o.Input
	s.Output += o.Output
	s.Cost += o.Cost
}

func (s *tally) id() string { return s.Day + "/" + s.Provider + "/" + s.Model }

const dayForm = "2006-01-02"

// spend adds a call to its document and returns the record that adds it to its
// day: one of its own, in the same write, so that no row of a day is what all
// documents wait for.
func (w *start) spend(r *row, u model.Usage, now time.Time) store.Record {
	cost := w.provider.config.cost(w.pipeline.model, u)
	r.Calls++
	r.Usage.Input += u.Input
	r.Usage.Output += u.Output
	r.Cost += cost
	spent := tally{
		Day: now.UTC().Format(dayForm), Provider: w.provider.name, Model: w.pipeline.model,
		Calls: 1, Input: u.Input, Output: u.Output, Cost: cost,
	}
	return store.Record{
		Kind: usageKind, ID: fmt.Sprintf("%s/%s/%d", spent.Day, w.id, r.Calls), Ref: spent.Day, Version: store.AnyVersion, Body: body(spent),
	}
}

// foldSize is how many calls one step adds up.
const foldSize = 500

// Fold adds calls up into their days and drops them, in one write. It reports
// whether more may be left. Somebody who was faster is no error.
func (s *Service) Fold(ctx context.Context) (more bool, err error) {
	list, err := s.store.Records(ctx, store.RecordFilter{Kind: usageKind, Limit: foldSize})
	if err != nil || len(list) == 0 {
		return false, err
	}
	var w store.Write
	days := map[string]*tally{}
	for i := range list {
		var one tally
		if err := json.Unmarshal(list[i].Body, &one); err != nil {
			return false, errCorrupt(usageKind, list[i].ID, err)
		}
		if sum := days[one.id()]; sum != nil {
			sum.add(&one)
		} else {
			days[one.id()] = &one
		}
		w.Drops = append(w.Drops, store.Record{Kind: usageKind, ID: list[i].ID, Version: list[i].Version})
	}
	for id, sum := range days {
		old, version, err := load[tally](ctx, s, dayKind, id)
		if err != nil {
			return false, err
		}
		sum.add(&old)
		w.Puts = append(w.Puts, store.Record{Kind: dayKind, ID: id, Ref: sum.Day, Version: version, Body: body(sum)})
	}
	_, err = s.store.Write(ctx, time.Time{}, w)
	if errors.Is(err, store.ErrConflict) {
		return false, nil
	}
	return err == nil && len(list) == foldSize, err
}

// Usage tells what was asked from one day to another, both included (UTC), by
// day, provider and model. Empty days are today.
func (s *Service) Usage(ctx context.Context, from, to string) ([]Spent, error) {
	today := s.clock.Now().UTC().Format(dayForm)
	if to == "" {
		to = today
	}
	if from == "" {
		from = to
	}
	for _, day := range []string{from, to} {
		if _, err := time.Parse(dayForm, day); err != nil {
			return nil, invalidf("document: day %q: want one such as 2026-02-21", day)
		}
	}
	if from > to {
		return nil, invalidf("document: from %s to %s: the first day is after the last", from, to)
	}
	sum := map[string]*tally{}
	for _, kind := range []string{dayKind, usageKind} {
		if err := s.sum(ctx, kind, from, to, sum); err != nil {
			return nil, err
		}
	}
	out := make([]Spent, 0, len(sum))
	for _, one := range sum {
		out = append(out, one.spent())
	}
	slices.SortFunc(out, func(a, b Spent) int {
		return cmp.Or(strings.Compare(a.Day, b.Day), strings.Compare(a.Provider, b.Provider), strings.Compare(a.Model, b.Model))
	})
	return out, nil
}

// sum adds the records of a kind whose ids begin with a day.
func (s *Service) sum(ctx context.Context, kind, from, to string, into map[string]*tally) error {
	for after := from; ; {
		list, err := s.store.Records(ctx, store.RecordFilter{Kind: kind, After: after, Limit: foldSize})
		if err != nil {
			return err
		}
		for i := range list {
			after = list[i].ID
			if after[:min(len(after), len(to))] > to {
				return nil
			}
			var one tally
			if err := json.Unmarshal(list[i].Body, &one); err != nil {
				return errCorrupt(kind, after, err)
			}
			if old := into[one.id()]; old != nil {
				old.add(&one)
			} else {
				into[one.id()] = &one
			}
		}
		if len(list) < foldSize {
			return nil
		}
	}
}
