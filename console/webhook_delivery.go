package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/work/webhook"
)

type deliveryBody struct {
	webhook.DeliveryShown
	Why      engine.Why
	Payload  string // as text; empty if it is none
	Attempts []attemptRow
	Redrive  string // what the button says; empty = there is none
}

// attemptRow is one start with the parts of its call drawn.
type attemptRow struct {
	webhook.LogRow
	Took  float64 // seconds
	Parts []part
}

// part is a stretch of a call, in percent of the whole.
type part struct {
	Name     string
	From, Of float64 // percent
	MS       float64
}

// partsOf splits a call into what happened one after the other.
func partsOf(a *webhook.Attempt) []part {
	if a == nil || a.Total <= 0 {
		return nil
	}
	before := a.DNS + a.Connect + a.TLS
	wait, rest := a.Total-before, 0.0
	if a.FirstByte > 0 {
		wait, rest = max(0, a.FirstByte-before), max(0, a.Total-max(a.FirstByte, before))
	}
	var list []part
	at := 0.0
	for _, p := range []part{
		{Name: "dns", MS: a.DNS},
		{Name: "connect", MS: a.Connect},
		{Name: "tls", MS: a.TLS},
		{Name: "wait", MS: max(0, wait)},
		{Name: "answer", MS: rest},
	} {
		if p.MS <= 0 {
			continue
		}
		p.From, p.Of = at, 100*p.MS/a.Total
		at += p.Of
		list = append(list, p)
	}
	return list
}

func (s *server) delivery(w http.ResponseWriter, r *http.Request) error {
	if err := s.mayRead(r, webhook.Queue); err != nil {
		return err
	}
	ctx, id := r.Context(), r.PathValue("id")
	d, err := s.Webhooks.Delivery(ctx, id)
	if err != nil {
		return err
	}
	b := &deliveryBody{DeliveryShown: d, Payload: readable(d.Payload), Redrive: redriveWords[d.State]}
	if b.Why, err = s.Ops.Why(ctx, id); err != nil {
		return err
	}
	for i := range d.Log {
		row := &d.Log[i]
		b.Attempts = append(b.Attempts, attemptRow{LogRow: *row, Took: row.EndedAt.Sub(row.StartedAt).Seconds(), Parts: partsOf(row.Attempt)})
	}
	slices.Reverse(b.Attempts)
	return s.show(w, r, http.StatusOK, "webhook_delivery.html", page{Title: "Delivery " + id, Nav: webhookEntry.Name, Body: b})
}

var redriveWords = map[job.State]string{
	job.Failed: "Send again", job.Parked: "Send again", job.Queued: "Send now", job.Succeeded: "Send once more", job.Cancelled: "Send once more",
}

// readable is a payload as text: JSON with its lines broken, other text as it
// is; empty for bytes that are none.
func readable(payload []byte) string {
	if !utf8.Valid(payload) {
		return ""
	}
	var text bytes.Buffer
	if json.Indent(&text, payload, "", "  ") == nil {
		return text.String()
	}
	return string(payload)
}
