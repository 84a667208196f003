package console

import (
	"context"
	"net/http"
	"slices"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// maxGroups is how many fingerprints a page has.
const maxGroups = 100

type deadBody struct {
	*listBody
	Groups []engine.Group // where no fingerprint is chosen
	Causes []causeRow     // of those groups
	Parked *parkedSum     // beside them, where nothing is chosen
	Orders []engine.Redrive
}

// dead shows the dead letters by what went wrong, or those of one
// fingerprint.
func (s *server) dead(w http.ResponseWriter, r *http.Request) error {
	f, err := s.filter(r)
	if err != nil {
		return err
	}
	f.State = job.Failed
	b := &deadBody{}
	if f.Fingerprint == "" {
		if b.Groups, err = s.groups(r.Context(), r, f, engine.MaxLimit); err != nil {
			return err
		}
		b.Causes = deadCauses(f, b.Groups)
		b.Groups = b.Groups[:min(len(b.Groups), maxGroups)]
	}
	if f.Fingerprint == "" && f.Cause == "" {
		if b.Parked, err = s.parked(r.Context(), r, f); err != nil {
			return err
		}
	}
	cursor := r.URL.Query().Get("cursor")
	list, err := s.Ops.Dead(r.Context(), f, listPage(cursor))
	if err != nil {
		return err
	}
	b.listBody = s.list(r, "/dead", f, list, cursor)
	if queues(r) == nil {
		if b.Orders, err = s.Ops.Redrives(r.Context(), 8); err != nil {
			return err
		}
	}
	return s.show(w, r, http.StatusOK, "dead.html", page{Title: "Dead letters", Nav: "dead", Body: b})
}

// groups are those of the queues that the visitor may see.
func (s *server) groups(ctx context.Context, r *http.Request, f engine.Filter, limit int) ([]engine.Group, error) {
	f.State = ""
	own := queues(r)
	if own == nil || f.Queue != "" {
		return s.Ops.Groups(ctx, f, engine.Page{Limit: limit, Rows: engine.PageRows})
	}
	var all []engine.Group
	for _, name := range own {
		f.Queue = name
		list, err := s.Ops.Groups(ctx, f, engine.Page{Limit: limit, Rows: engine.PageRows})
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b engine.Group) int { return int(min(max(b.Count-a.Count, -1), 1)) })
	return all[:min(len(all), limit)], nil
}
