package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/work/webhook"
)

// hookDone goes back to the page of what was ordered.
func hookDone(w http.ResponseWriter, r *http.Request, path, done string, p *engine.Probe) {
	http.Redirect(w, r, path+"?"+doneQuery(done, p), http.StatusSeeOther)
}

func endpointPath(id string) string { return "/endpoints/" + url.PathEscape(id) }

func (s *server) mayHook(r *http.Request) error { return s.may(r, access.Operate, webhook.Queue) }

// secretBody shows a secret, this once.
type secretBody struct {
	Endpoint webhook.Endpoint
	Secret   string
	Rotated  bool
}

func (s *server) addEndpoint(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayHook(r); err != nil {
		return err
	}
	form := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	n := webhook.NewEndpoint{
		URL: form("url"), Owner: form("owner"), Description: form("description"),
		Types: strings.FieldsFunc(form("types"), func(c rune) bool { return c == ',' || c == ' ' }),
	}
	e, secret, err := s.Webhooks.Add(r.Context(), n)
	if errors.Is(err, webhook.ErrInvalid) {
		return s.showEndpoints(w, r, http.StatusBadRequest, &endpointsBody{URL: n.URL, Types: form("types"), Wrong: sentence(strings.TrimPrefix(err.Error(), "webhook: endpoint: "))})
	}
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusCreated, "webhook_secret.html", page{Title: "Secret", Nav: webhookEntry.Name, Body: &secretBody{Endpoint: e, Secret: secret}})
}

func (s *server) pauseEndpoint(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayHook(r); err != nil {
		return err
	}
	until, err := s.pausedUntil(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if _, err := s.Webhooks.Pause(r.Context(), id, strings.TrimSpace(r.PostForm.Get("reason")), until); err != nil {
		return err
	}
	hookDone(w, r, endpointPath(id), "hook_paused", nil)
	return nil
}

func (s *server) resumeEndpoint(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayHook(r); err != nil {
		return err
	}
	id := r.PathValue("id")
	e, err := s.Webhooks.Resume(r.Context(), id, r.PostForm.Get("keep") != "")
	if err != nil {
		return err
	}
	hookDone(w, r, endpointPath(id), "hook_resumed", e.Probe)
	return nil
}

func (s *server) disableEndpoint(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayHook(r); err != nil {
		return err
	}
	id := r.PathValue("id")
	if _, err := s.Webhooks.Disable(r.Context(), id, strings.TrimSpace(r.PostForm.Get("reason"))); err != nil {
		return err
	}
	hookDone(w, r, endpointPath(id), "hook_disabled", nil)
	return nil
}

func (s *server) rotateEndpoint(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayHook(r); err != nil {
		return err
	}
	e, secret, err := s.Webhooks.Rotate(r.Context(), r.PathValue("id"), 0)
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "webhook_secret.html", page{Title: "Secret", Nav: webhookEntry.Name, Body: &secretBody{Endpoint: e, Secret: secret, Rotated: true}})
}

func (s *server) testEndpoint(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayHook(r); err != nil {
		return err
	}
	e, err := s.Webhooks.Test(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	hookDone(w, r, "/deliveries/"+url.PathEscape(e.Deliveries[0].ID), "hook_tested", e.Probe)
	return nil
}

func (s *server) redriveDelivery(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayHook(r); err != nil {
		return err
	}
	d, err := s.Webhooks.Redrive(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	hookDone(w, r, "/deliveries/"+url.PathEscape(d.ID), "hook_sent", d.Probe)
	return nil
}
