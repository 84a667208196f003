package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise/campaign"
)

// CampaignList is the campaigns that the principal may read, by name.
type CampaignList struct {
	Campaigns []campaign.Status `json:"campaigns"`
}

// RecoverOrder asks what recover would do, or orders it.
type RecoverOrder struct {
	Apply bool `json:"apply,omitempty" doc:"do it; otherwise it is only told"`
}

// LockOrder holds recover back.
type LockOrder struct {
	Reason  string  `json:"reason" doc:"for who finds it locked"`
	Seconds float64 `json:"seconds,omitempty" doc:"how long; missing = until it is unlocked"`
}

var errNoCampaigns = problem(http.StatusNotFound, "no_campaigns", "ask a server that keeps campaigns", "this server has none")

// ofCampaign asks about one campaign, if the principal may see its queue.
func ofCampaign[In interface{ campaign() string }, Out any](s *server, scope access.Scope, ask func(context.Context, In, campaign.Status) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		var nothing Out
		if s.Campaigns == nil {
			return nothing, errNoCampaigns
		}
		st, err := s.Campaigns.Show(ctx, in.campaign())
		if err == nil {
			err = may(ctx, scope, st.Queue)
		}
		if err != nil {
			return nothing, campaignProblem(err)
		}
		out, err := ask(ctx, in, st)
		return out, campaignProblem(err)
	}
}

func campaignProblem(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return problem(http.StatusNotFound, "not_found", "look at the list for what there is", "%v", err)
	case errors.Is(err, campaign.ErrBusy):
		return problem(http.StatusConflict, "conflict", "ask again", "%v", err)
	}
	return err
}

func (n *nameIn) campaign() string { return n.Name }

func (s *server) campaignRoutes() []route {
	return []route{
		handle(s, access.Read, http.MethodGet, "/v1/campaigns", "listCampaigns", "List campaigns with their sources, by name",
			func(ctx context.Context, _ *none) (CampaignList, error) {
				if s.Campaigns == nil {
					return CampaignList{}, errNoCampaigns
				}
				list, err := s.Campaigns.List(ctx)
				p, _ := access.PrincipalOf(ctx)
				return CampaignList{slices.DeleteFunc(list, func(st campaign.Status) bool { return !p.May(access.Read, st.Queue) })}, err
			}),
		handle(s, access.Read, http.MethodGet, "/v1/campaigns/{name}", "showCampaign", "Tell how a campaign stands; without the year the newest one",
			ofCampaign(s, access.Read, func(_ context.Context, _ *nameIn, st campaign.Status) (campaign.Status, error) { return st, nil })),
		handle(s, access.Read, http.MethodGet, "/v1/campaigns/{name}/report", "reportCampaign", "Tell what a campaign has brought in, and what not",
			ofCampaign(s, access.Read, func(ctx context.Context, _ *nameIn, st campaign.Status) (campaign.Report, error) {
				return s.Campaigns.Report(ctx, s.Clock.Now(), st.Campaign)
			})),
		s.recoverCampaign(),
		s.lockCampaign(),
		handle(s, access.Operate, http.MethodPost, "/v1/campaigns/{name}/unlock", "unlockCampaign", "End the maintenance lock of a campaign",
			ofCampaign(s, access.Operate, func(ctx context.Context, _ *nameIn, st campaign.Status) (campaign.Status, error) {
				if err := s.Campaigns.Unlock(ctx, s.Clock.Now(), actorOf(ctx), st.Campaign); err != nil {
					return st, err
				}
				return s.Campaigns.Show(ctx, st.Campaign)
			})),
	}
}

func (s *server) recoverCampaign() route {
	type recoverIn struct {
		nameIn
		Body RecoverOrder
	}
	return handle(s, access.Operate, http.MethodPost, "/v1/campaigns/{name}/recover", "recoverCampaign", "Give the first run that spent its restarts fresh ones, within the campaign's limits",
		ofCampaign(s, access.Operate, func(ctx context.Context, in *recoverIn, st campaign.Status) (campaign.Recovered, error) {
			return s.Campaigns.Recover(ctx, s.Clock.Now(), actorOf(ctx), st.Campaign, in.Body.Apply)
		}))
}

func (s *server) lockCampaign() route {
	type lockIn struct {
		nameIn
		Body LockOrder
	}
	return handle(s, access.Operate, http.MethodPost, "/v1/campaigns/{name}/lock", "lockCampaign", "Hold recover back while people work on the machine",
		ofCampaign(s, access.Operate, func(ctx context.Context, in *lockIn, st campaign.Status) (campaign.Status, error) {
			if in.Body.Reason == "" || in.Body.Seconds < 0 {
				return st, problem(http.StatusUnprocessableEntity, "invalid", "say why, and for how many seconds, if not for ever", "reason %q, seconds %g", in.Body.Reason, in.Body.Seconds)
			}
			length := time.Duration(in.Body.Seconds * float64(time.Second))
			if err := s.Campaigns.Lock(ctx, s.Clock.Now(), actorOf(ctx), st.Campaign, in.Body.Reason, length); err != nil {
				return st, err
			}
			return s.Campaigns.Show(ctx, st.Campaign)
		}))
}
