package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/work/supervise/campaign"
)

// campaignEntry is the pages' place in the navigation.
var campaignEntry = entry{"campaigns", "/campaigns", "Campaigns"}

// campaignRoutes are the pages of campaigns; none where nothing keeps them.
func (s *server) campaignRoutes() map[string]handler {
	if s.Campaigns == nil {
		return nil
	}
	return map[string]handler{
		"GET /campaigns":                 s.campaigns,
		"GET /campaigns/{name}":          s.campaign,
		"POST /campaigns/{name}/recover": s.orderCampaign("campaign_recovered", s.recoverCampaign),
		"POST /campaigns/{name}/lock":    s.orderCampaign("campaign_locked", s.lockCampaign),
		"POST /campaigns/{name}/unlock":  s.orderCampaign("campaign_unlocked", s.unlockCampaign),
	}
}

func (s *server) campaigns(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Campaigns.List(r.Context())
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(st campaign.Status) bool { return s.mayRead(r, st.Queue) != nil })
	slices.Reverse(list)
	return s.show(w, r, http.StatusOK, "campaigns.html", page{Title: "Campaigns", Nav: "campaigns", Body: list})
}

type campaignBody struct {
	campaign.Status
	Recover    campaign.Recovered
	Act        *campaign.Remedy    // what recover would do now
	Recoveries []campaign.Recovery // newest first
	Report     campaign.Report
}

func (s *server) oneCampaign(r *http.Request, scope access.Scope) (campaign.Status, error) {
	st, err := s.Campaigns.Show(r.Context(), r.PathValue("name"))
	if errors.Is(err, store.ErrNotFound) {
		return st, &refusal{http.StatusNotFound, "There is no such campaign."}
	}
	if err != nil {
		return st, err
	}
	return st, s.may(r, scope, st.Queue)
}

func (s *server) campaign(w http.ResponseWriter, r *http.Request) error {
	st, err := s.oneCampaign(r, access.Read)
	if err != nil {
		return err
	}
	b := &campaignBody{Status: st, Recoveries: slices.Clone(st.Recoveries)}
	slices.Reverse(b.Recoveries)
	if b.Recover, err = s.Campaigns.Recover(r.Context(), s.Now(), "", st.Campaign, false); err != nil {
		return err
	}
	b.Act = b.Recover.Acts()
	if b.Report, err = s.Campaigns.Report(r.Context(), s.Now(), st.Campaign); err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "campaign.html", page{Title: "Campaign " + st.Campaign, Nav: "campaigns", Body: b})
}

// orderCampaign carries out an order and shows the campaign again.
func (s *server) orderCampaign(done string, do func(r *http.Request, actor, name string) error) handler {
	return s.ordered(func(w http.ResponseWriter, r *http.Request) error {
		st, err := s.oneCampaign(r, access.Operate)
		if err != nil {
			return err
		}
		who, _ := access.PrincipalOf(r.Context())
		err = do(r, who.Name, st.Campaign)
		if errors.Is(err, campaign.ErrBusy) {
			return &refusal{http.StatusConflict, "Somebody else is changing it. Look at it again."}
		}
		if err != nil {
			return err
		}
		http.Redirect(w, r, "/campaigns/"+url.PathEscape(st.Campaign)+"?done="+done, http.StatusSeeOther)
		return nil
	})
}

func (s *server) recoverCampaign(r *http.Request, actor, name string) error {
	got, err := s.Campaigns.Recover(r.Context(), s.Now(), actor, name, true)
	if err == nil && !got.Applied {
		return &refusal{http.StatusConflict, "There is nothing that may be recovered now."}
	}
	return err
}

func (s *server) lockCampaign(r *http.Request, actor, name string) error {
	reason := strings.TrimSpace(r.PostFormValue("reason"))
	length, err := time.ParseDuration(r.PostFormValue("for"))
	if reason == "" || r.PostFormValue("for") != "" && (err != nil || length <= 0) {
		return &refusal{http.StatusBadRequest, "Say why it is locked, and for how long: such as 2h, or nothing until it is unlocked."}
	}
	return s.Campaigns.Lock(r.Context(), s.Now(), actor, name, reason, length)
}

func (s *server) unlockCampaign(r *http.Request, actor, name string) error {
	return s.Campaigns.Unlock(r.Context(), s.Now(), actor, name)
}
