package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// maxForm is the most bytes of a form.
const maxForm = 64 << 10

// notices are told after an order was carried out, by the word that the
// redirect carries: the address never brings words of its own.
var notices = map[string]string{
	"retried":   "The job is queued again.",
	"cancelled": "The job is cancelled; if it was running, it is told to stop.",
	"paused":    "Paused: nothing more starts. What runs already runs on.",
	"resumed":   "Resumed.",
	"begun":     "Begun. It goes on in the background; this page shows how far it is.",
	"stopped":   "Stopped where it was: what was done is done.",
	"redriven":  "The redrive is ordered. Workers carry it out.",
	"requeued":  "Queued again, with fresh attempts.",
	"probed":    "A probe is ordered.",
	"closed":    "The breaker is closed. What waits goes out.",

	"hook_paused":   "Paused: its deliveries are kept and wait.",
	"hook_resumed":  "Enabled. What was kept for it goes out.",
	"hook_disabled": "Disabled. Its deliveries are parked: kept, and sent when it is resumed.",
	"hook_tested":   "A test event is on its way.",
	"hook_sent":     "It is on its way again.",

	"campaign_recovered": "The first run that may be recovered has fresh restarts.",
	"campaign_locked":    "Locked: nothing is recovered until it is unlocked, or the time is over.",
	"campaign_unlocked":  "Unlocked.",
}

// probeNotices follow them where an order has a target called that was held.
var probeNotices = map[engine.ProbeState]string{
	engine.ProbeSent:     "The target is called now, as the probe that decides.",
	engine.ProbeOut:      "A probe of the target is out already: its outcome decides.",
	engine.ProbeFailed:   "The target was called a moment ago and is held again; its page can order another probe.",
	engine.ProbePaused:   "The target is paused: nothing is sent before it is resumed.",
	engine.ProbeDisabled: "The target is disabled: nothing is sent before it is resumed.",
	engine.ProbeNone:     "Nothing holds the target: it may be called.",
}

// noticeOf reads off an address what to tell.
func noticeOf(q url.Values) string {
	return strings.TrimSpace(notices[q.Get("done")] + " " + probeNotices[engine.ProbeState(q.Get("probe"))])
}

// doneQuery is the query of an address that tells what was done, and what
// became of a target that was held.
func doneQuery(done string, p *engine.Probe) string {
	q := url.Values{"done": {done}}
	if p != nil {
		q.Set("probe", string(p.State))
	}
	return q.Encode()
}

// ordered wraps what changes something: it needs a session. Forms of other
// sites are refused before.
func (s *server) ordered(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.Keeper == nil {
			return &refusal{http.StatusForbidden, "This server keeps no sessions: its pages only show."}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			return &refusal{http.StatusBadRequest, "The form could not be read."}
		}
		return next(w, r)
	}
}

// orderJob retries or cancels one job.
func (s *server) orderJob(do func(context.Context, string) (engine.Job, error), done string) handler {
	return s.ordered(func(w http.ResponseWriter, r *http.Request) error {
		id := r.PathValue("id")
		j, err := s.Ops.Job(r.Context(), id)
		if err != nil {
			return err
		}
		if err := s.may(r, access.Operate, j.Queue); err != nil {
			return err
		}
		if j, err = do(r.Context(), id); err != nil {
			return err
		}
		http.Redirect(w, r, "/jobs/"+url.PathEscape(id)+"?"+doneQuery(done, j.Probe), http.StatusSeeOther)
		return nil
	})
}

// orderQueue pauses or resumes a queue.
func (s *server) orderQueue(do func(context.Context, string) (engine.Queue, error), done string) handler {
	return s.ordered(func(w http.ResponseWriter, r *http.Request) error {
		name := r.PostForm.Get("name")
		if err := s.may(r, access.Operate, name); err != nil {
			return err
		}
		if _, err := do(r.Context(), name); err != nil {
			return err
		}
		back(w, r, "/queue", name, done)
		return nil
	})
}

// pausedUntil reads how long a pause is to last; zero = until it is resumed.
func (s *server) pausedUntil(r *http.Request) (time.Time, error) {
	text := strings.TrimSpace(r.PostForm.Get("minutes"))
	if text == "" {
		return time.Time{}, nil
	}
	minutes, err := strconv.ParseFloat(text, 64)
	if err != nil || !(minutes > 0 && minutes <= 60*24*365) {
		return time.Time{}, &refusal{http.StatusBadRequest, "The minutes of a pause are a number above 0, or empty for until it is resumed."}
	}
	return s.Now().Add(time.Duration(minutes * float64(time.Minute))), nil
}

func (s *server) pauseTarget(w http.ResponseWriter, r *http.Request) error {
	if err := s.may(r, access.Operate, ""); err != nil {
		return err
	}
	until, err := s.pausedUntil(r)
	if err != nil {
		return err
	}
	name := r.PostForm.Get("name")
	if _, err := s.Ops.PauseTarget(r.Context(), name, until); err != nil {
		return err
	}
	back(w, r, "/target", name, "paused")
	return nil
}

func (s *server) resumeTarget(w http.ResponseWriter, r *http.Request) error {
	if err := s.may(r, access.Operate, ""); err != nil {
		return err
	}
	name := r.PostForm.Get("name")
	t, err := s.Ops.ResumeTarget(r.Context(), name, r.PostForm.Get("keep") != "")
	if err != nil {
		return err
	}
	backToTarget(w, r, name, "resumed", t.Probe)
	return nil
}

func (s *server) probeTarget(w http.ResponseWriter, r *http.Request) error {
	if err := s.may(r, access.Operate, ""); err != nil {
		return err
	}
	name := r.PostForm.Get("name")
	t, err := s.Ops.ProbeTarget(r.Context(), name)
	if err != nil {
		return err
	}
	backToTarget(w, r, name, "probed", &t.Probe)
	return nil
}

func (s *server) closeTarget(w http.ResponseWriter, r *http.Request) error {
	if err := s.may(r, access.Operate, ""); err != nil {
		return err
	}
	name := r.PostForm.Get("name")
	if _, err := s.Ops.CloseTarget(r.Context(), name); err != nil {
		return err
	}
	backToTarget(w, r, name, "closed", nil)
	return nil
}

// backToTarget shows a target and what was ordered.
func backToTarget(w http.ResponseWriter, r *http.Request, name, done string, p *engine.Probe) {
	http.Redirect(w, r, "/target?"+url.Values{"name": {name}}.Encode()+"&"+doneQuery(done, p), http.StatusSeeOther)
}

type redriveBody struct {
	Search string
	Filter engine.Filter
	Rate   float64
	Order  engine.Redrive
}

// redrive counts first and shows what it would move; a second form orders it.
func (s *server) redrive(w http.ResponseWriter, r *http.Request) error {
	f, err := s.filter(r)
	if err != nil {
		return err
	}
	if err := s.may(r, access.Operate, f.Queue); err != nil {
		return err
	}
	if f.State == "" {
		f.State = job.Failed
	}
	rate := 0.0
	if text := strings.TrimSpace(r.PostForm.Get("rate")); text != "" {
		if rate, err = strconv.ParseFloat(text, 64); err != nil || !(rate >= 0 && rate <= 1e6) {
			return &refusal{http.StatusBadRequest, "The rate is a number of jobs a second; 0 or empty means all at once."}
		}
	}
	dry := r.PostForm.Get("sure") == ""
	order, err := s.Ops.Redrive(r.Context(), engine.Order{Filter: f, Rate: rate, DryRun: dry})
	if err != nil {
		return err
	}
	if !dry {
		var p *engine.Probe
		if len(order.Probes) > 0 {
			p = &order.Probes[0]
		}
		http.Redirect(w, r, "/dead?"+doneQuery("redriven", p), http.StatusSeeOther)
		return nil
	}
	b := &redriveBody{Filter: f, Rate: rate, Order: order}
	return s.show(w, r, http.StatusOK, "redrive.html", page{Title: "Redrive", Nav: "dead", Body: b})
}

// back shows what was ordered.
func back(w http.ResponseWriter, r *http.Request, path, name, done string) {
	http.Redirect(w, r, path+"?"+url.Values{"name": {name}, "done": {done}}.Encode(), http.StatusSeeOther)
}
