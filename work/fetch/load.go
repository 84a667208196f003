package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/fetch/input"
	"github.com/ebbhq/ebb/work/fetch/scope"
)

// loadBatch is how many URLs are enqueued at once.
const loadBatch = 1000

// forEver is longer than any fetch: a URL is taken for all of it.
const forEver = 100 * 365 * 24 * time.Hour

// Runner runs one fetch. Make it with Open.
type Runner struct {
	o      Options
	paces  *paces
	meter  *meter
	rules  *rulebook
	probes *probes
	flight *flights
	notes  *notes
	count  counter
	// recalled are the bodies whose pages this process has taken back.
	recalled []string
	gentle   policy.Policy // the policy within waves

	mu    sync.Mutex
	fetch Fetch
}

// Open finds the fetch of the name that has not ended, or begins a new one.
func Open(ctx context.Context, o Options) (*Runner, error) {
	r, err := newRunner(ctx, o)
	if err != nil {
		return nil, err
	}
	last, found, err := latest(ctx, o.Store, o.Name)
	if err != nil {
		return nil, err
	}
	if found && last.Phase != Ended {
		r.fetch = last
		return r, nil
	}
	err = r.begin(ctx, last)
	return r, err
}

// Resume returns the runner of the newest fetch of the name, ended or not.
func Resume(ctx context.Context, o Options) (*Runner, error) {
	r, err := newRunner(ctx, o)
	if err != nil {
		return nil, err
	}
	last, found, err := latest(ctx, o.Store, o.Name)
	if err == nil && !found {
		err = fmt.Errorf("fetch: %s: %w", o.Name, ErrNone)
	}
	r.fetch = last
	return r, err
}

func newRunner(ctx context.Context, o Options) (*Runner, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	wave, err := inWaves(o.Policy)
	if err == nil && o.Shared {
		if wave, err = together(wave); err == nil {
			o.Policy, err = together(o.Policy)
		}
	}
	if err != nil {
		return nil, err
	}
	r := &Runner{o: o, gentle: wave}
	r.paces = &paces{by: map[string]pace{}}
	r.meter = newMeter(r.o.clock())
	r.rules = newRulebook(r)
	r.probes = &probes{done: map[string]chan struct{}{}}
	r.notes = newNotes()
	r.count = newCounter()
	r.flight = &flights{by: map[int64]flying{}}
	if o.Exclusive {
		err = r.takeOver(ctx)
	}
	return r, err
}

// ErrNone is the error where nothing was fetched under a name yet.
var ErrNone = errors.New("no fetch here yet")

// begin writes the record of a new fetch. Of several processes that do so at
// once one wins, and the others join it.
func (r *Runner) begin(ctx context.Context, last Fetch) error {
	now, err := r.instant(ctx)
	if err != nil {
		return err
	}
	f := Fetch{
		ID: fmt.Sprintf("%s.%06d", r.o.Name, last.number()+1), Name: r.o.Name, Phase: Loading, CreatedAt: now,
		Policy: r.o.Policy.Name, Version: r.o.Policy.Version, Waiver: r.o.Waiver,
		Follows: r.o.Follow != nil, Conditional: r.o.Conditional, Previous: last.ID, Settings: r.o.Settings,
	}
	rec, err := f.record()
	if err != nil {
		return err
	}
	_, err = r.o.Store.Write(ctx, r.o.now(), store.Write{Puts: []store.Record{rec}})
	if errors.Is(err, store.ErrConflict) {
		r.set(f)
		return r.reload(ctx)
	}
	f.version = 1
	r.set(f)
	return err
}

// instant is policy time.
func (r *Runner) instant(ctx context.Context) (time.Time, error) {
	if r.o.Clock != nil {
		return store.Instant(r.o.Clock.Now()), nil
	}
	return r.o.Store.Now(ctx)
}

// pageArgs are the arguments of a job.
type pageArgs struct {
	URL     string         `json:"url"`
	Context []input.Column `json:"context,omitempty"`
	Depth   int            `json:"depth,omitempty"`
	From    string         `json:"from,omitempty"` // the page that linked to it
	// Again counts the jobs of the URL before this one, whose pages turned out
	// to be an error page: see recall.
	Again int `json:"again,omitempty"`
}

// Load takes the input in. It may be given again after an interruption: what
// is there already is not taken twice. A text that is no URL is an item too,
// and fails as such.
func (r *Runner) Load(ctx context.Context, items iter.Seq2[input.Item, error]) error {
	var batch []job.New
	var repeated int64
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		fresh, err := r.enqueue(ctx, batch)
		if err != nil {
			return err
		}
		repeated += int64(len(batch) - fresh)
		batch = batch[:0]
		return nil
	}
	for item, err := range items {
		if err != nil {
			return errors.Join(err, flush())
		}
		n, err := r.pageJob(pageArgs{URL: item.URL, Context: item.Context})
		if err != nil {
			return err
		}
		if batch = append(batch, n); len(batch) == loadBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	counts, err := r.counts(ctx)
	if err != nil {
		return err
	}
	return r.change(ctx, func(f *Fetch) bool {
		if f.Phase == Loading || !f.Follows {
			f.Input = total(counts) - f.Recalled
		}
		if f.Phase == Loading {
			f.Phase, f.Repeated = Passing, repeated
		}
		return true
	})
}

// pageJob is the job of one page.
func (r *Runner) pageJob(a pageArgs) (job.New, error) {
	a.URL = cleaned(a.URL)
	target := ""
	if normal, err := scope.Normalize(a.URL); err == nil {
		a.URL = normal
		target = scope.Host(normal)
	}
	args, err := json.Marshal(a)
	if err != nil {
		return job.New{}, fmt.Errorf("fetch: %q: %w", a.URL, err)
	}
	f := r.Fetch()
	unique := nameOf(a.URL)
	if a.Again > 0 {
		unique = fmt.Sprintf("%s.%d", unique, a.Again)
	}
	return job.New{
		Kind: Kind, Queue: f.Queue(), Batch: f.ID, Target: target, Policy: r.o.Policy.Name, Args: args,
		Unique: unique, UniqueScope: job.UniqueInQueue, UniqueFor: forEver,
	}, nil
}

// cleaned makes any text storable.
func cleaned(url string) string { return strings.ToValidUTF8(strings.TrimSpace(url), "\uFFFD") }

// nameOf is the short name of a URL of any length.
func nameOf(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:16])
}

// enqueue adds jobs and returns how many were new.
func (r *Runner) enqueue(ctx context.Context, batch []job.New) (fresh int, err error) {
	answers, err := r.o.Store.Enqueue(ctx, r.o.now(), batch)
	if err != nil {
		return 0, fmt.Errorf("fetch: enqueue: %w", err)
	}
	for _, a := range answers {
		if !a.Existing {
			fresh++
		}
	}
	return fresh, nil
}
