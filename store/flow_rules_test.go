package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebbhq/ebb/gate"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/retry"
	"github.com/ebbhq/ebb/store"
)

func TestPrepareFlowRefuses(t *testing.T) {
	for want, n := range map[string]job.New{
		`target "queue:x"`:           {Target: "queue:x"},
		`key rule "wait"`:            {Key: "k", KeyRule: "wait"},
		`key rule "skip" without`:    {KeyRule: job.KeySkip},
		`conflict "merge"`:           {Unique: "u", Conflict: "merge"},
		"must not be negative":       {Unique: "u", UniqueFor: -1},
		`unique scope "host"`:        {Unique: "u", UniqueScope: "host"},
		"without a unique key":       {UniqueFor: time.Second},
		"conflict without a unique":  {Conflict: job.ConflictRefuse},
		"scope, time or conflict wi": {UniqueScope: job.UniqueInKind},
	} {
		n.Kind = "mail"
		if _, err := store.Prepare(time.Unix(1, 0), n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want something with %s", n, err, want)
		}
	}
}

// The scope stands in the key: stores compare nothing else.
func TestPrepareScope(t *testing.T) {
	keys := map[string]bool{}
	for _, n := range []job.New{
		{Kind: "a", Queue: "q", Unique: "u"},
		{Kind: "a", Queue: "q", Unique: "u", UniqueScope: job.UniqueInQueue},
		{Kind: "a", Queue: "r", Unique: "u", UniqueScope: job.UniqueInQueue},
		{Kind: "a", Queue: "q", Unique: "u", UniqueScope: job.UniqueInKind},
		{Kind: "q", Queue: "q", Unique: "u", UniqueScope: job.UniqueInKind},
	} {
		got, err := store.Prepare(time.Unix(1, 0), n)
		if err != nil || got.UniqueScope != job.UniqueEverywhere || keys[got.Unique] {
			t.Errorf("%+v became %+v, %v", n, got, err)
		}
		keys[got.Unique] = true
		if again, err := store.Prepare(time.Unix(1, 0), got); err != nil || again.Unique != got.Unique {
			t.Errorf("prepared twice: %q became %q, %v", got.Unique, again.Unique, err)
		}
	}
}

func TestGrants(t *testing.T) {
	var g store.Gate
	for _, held := range []store.Grant{{Process: 5, Firsts: 1}, {Process: 2, Retries: 2, Probe: true}, {Process: 9, Firsts: 3}, {Process: 5, Firsts: 1, Retries: 1}} {
		before := slices.Clone(g.Grants)
		shared := g
		g.SetGrant(held)
		if !slices.Equal(shared.Grants, before) {
			t.Errorf("a copy of the gate was changed: %+v", shared.Grants)
		}
	}
	want := []store.Grant{{Process: 2, Retries: 2, Probe: true}, {Process: 5, Firsts: 1, Retries: 1}, {Process: 9, Firsts: 3}}
	if !slices.Equal(g.Grants, want) {
		t.Errorf("grants %+v, want %+v", g.Grants, want)
	}
	if got := g.GrantOf(5); got != want[1] || got.Size() != 2 {
		t.Errorf("grant of 5: %+v", got)
	}
	if got := g.GrantOf(4); got != (store.Grant{Process: 4}) {
		t.Errorf("grant of 4: %+v", got)
	}
	g.SetGrant(store.Grant{Process: 5})
	g.SetGrant(store.Grant{Process: 4, Probe: true})
	if want = slices.Delete(want, 1, 2); !slices.Equal(g.Grants, want) {
		t.Errorf("grants of size 0 stay: %+v", g.Grants)
	}
}

func TestAbandoned(t *testing.T) {
	now := time.Unix(1000, 0)
	g := store.Gate{Target: "x", Version: 7, OpenAt: store.Never, Policy: "p", Disabled: "d"}
	for i := range 5 {
		g.State, _ = gate.Step(gate.Config{}, g.State, gate.Ask{Retry: i < 2}, now, 0)
	}
	g.SetGrant(store.Grant{Process: 1, Firsts: 1, Retries: 1})
	g.SetGrant(store.Grant{Process: 2, Firsts: 2, Retries: 1})
	after := store.Abandoned(g, 2, now)
	if after.State.InFlight != 2 || after.State.Retries != 1 || !slices.Equal(after.Grants, g.Grants[:1]) {
		t.Errorf("in flight %d, retries %d, grants %+v", after.State.InFlight, after.State.Retries, after.Grants)
	}
	if !after.OpenAt.IsZero() || after.Room != store.NoLimit || after.Version != 7 || after.Policy != "p" || after.Disabled != "d" {
		t.Errorf("gate %+v", after)
	}
	if len(g.Grants) != 2 || g.State.InFlight != 5 {
		t.Errorf("the gate that was passed has changed: %+v", g)
	}
}

func TestCheckEnding(t *testing.T) {
	for _, ok := range []store.Ending{{To: job.Failed, Cause: retry.CauseExpired}, {To: job.Parked, Cause: retry.CauseTargetDown}, {To: job.Parked, Cause: job.Disabled}} {
		if err := store.CheckEnding(ok); err != nil {
			t.Errorf("%+v: %v", ok, err)
		}
	}
	for _, bad := range []store.Ending{{}, {To: job.Cancelled}, {To: job.Running}, {To: job.Failed, Cause: retry.CauseFatal}, {To: job.Parked, Cause: retry.CauseConfig}} {
		if err := store.CheckEnding(bad); !errors.Is(err, store.ErrState) {
			t.Errorf("%+v: %v, want ErrState", bad, err)
		}
	}
}
