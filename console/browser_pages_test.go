package console_test

import (
	"strings"
	"testing"
)

// browserPages are all pages that the browser opens. To add a page, add a
// line: the path, in which {died} and such stand for the ids of the world's
// jobs, and what must be readable there. It is then opened in light and dark,
// must leave the browser's console silent, must fit a phone without scrolling
// sideways, and must have no serious finding of axe-core. What it shows is put
// there by world.live; a workload adds a line to worldParts (world_test.go).
// EBB_SHOTS=DIR go test ./console -run TestBrowserPages writes screenshots.
var browserPages = []struct {
	path string
	sees []string
}{
	{"/", []string{"Overview", "More dies than was promised", "Due and waiting", "How jobs ended", "hooks", "the amount <0> & currency", "worker-1"}},
	{"/jobs", []string{"Jobs", "report", "421 try again later"}},
	{"/jobs?state=failed&kind=bill", []string{"bill", "fatal"}},
	{"/jobs?key=order", []string{"key order-17", "Cancel…"}},
	{"/jobs/{died}", []string{"Job {died}", "failed", "the amount <0> & currency", "Start 1"}},
	{"/jobs/{waiting}", []string{"paused", "order-17", "It has not been started yet."}},
	{"/jobs/{running}", []string{"running", "Cancel"}},
	{"/dead", []string{"By what went wrong", "Redrives", "under way"}},
	{"/queues", []string{"hooks", "imports", "reports", "paused"}},
	{"/queue?name=reports", []string{"by maya", "Resume"}},
	{"/targets", []string{crm, "open"}},
	{"/target?name=https%3A%2F%2Fcrm.example%2Fhook", []string{"open", "What waits", "Pause"}},
	{"/endpoints", []string{"https://crm.example/in", "100", "they migrate", "it answered 410 Gone", "Add an endpoint"}},
	{"/endpoints/{endpoint}", []string{"Acme's CRM", "of the last 6 succeeded", "Rotate the secret", "invoice.paid"}},
	{"/endpoints/{down}", []string{"https://billing.example/webhooks", "breaker", "503"}},
	{"/deliveries/{undelivered}", []string{"Start 1", "503", "Decided: retry", "Headers and answer", "Payload"}},
	{"/deliveries/{delivered}", []string{"succeeded", "invoice.paid"}},
	{"/documents", []string{"{batch}", "invoices", "openai/gpt-4.1-mini", "1 failed", "Models today"}},
	{"/batches/{batch}", []string{"2026-02-invoice.txt", "503", "Queue all failed"}},
	{"/documents/{batch}-000001", []string{"Result", "\"total\": 1712", "fence"}},
	{"/documents/{batch}-000002", []string{"The answer that was refused", "unparseable", "Queue again"}},
	{"/documents/{batch}-000003", []string{"retry", "503"}},
	{"/runs", []string{"hc-2026", "no_progress", "wget --mirror"}},
	{"/runs/hc-2026", []string{"No rise of pages for 1h.", "Retry with fresh restarts", "saved [4711]", "Standard error"}},
	{"/campaigns", []string{"annual-2026", "hc", "0 of 3"}},
	{"/campaigns/annual-2026", []string{"Sources", "the breaker is open", "Recoveries", "auto-recover", "Lock"}},
	{"/policies", []string{"webhook", "lint passes"}},
	{"/simulate", []string{"What would this policy do in an outage?"}},
	{"/simulate?a=webhook&b=default&kind=errors&minutes=5&arrival=5&capacity=20&seed=1", []string{"webhook", "Seed 1."}},
	{"/audit", []string{"Who ordered what", "maya", "queue.pause", "reports"}},
	{"/nowhere", []string{"There is no such page."}},
}

// named puts the ids into a text.
func (w *world) named(text string) string {
	return strings.NewReplacer("{waiting}", w.waiting, "{died}", w.died, "{parked}", w.parked, "{running}", w.running, "{retried}", w.retried,
		"{endpoint}", w.endpoint, "{down}", w.down, "{delivered}", w.delivered, "{undelivered}", w.undelivered, "{batch}", w.batch).Replace(text)
}

func TestBrowserPages(t *testing.T) {
	w := newWorld(t)
	b := w.enter()
	for _, p := range browserPages {
		path := w.named(p.path)
		name := strings.NewReplacer("/", "_", "?", "_", "&", "_", "%", "").Replace(path)
		b.open(path)
		for _, text := range p.sees {
			b.sees(w.named(text))
		}
		b.colours("light")
		b.accessible(path+" light", "")
		b.shoot(name + "-light")
		b.size(390, 844)
		if wide := ask[int](b, "document.scrollingElement.scrollWidth"); wide > 390 {
			t.Errorf("%s: %d px wide on a phone of 390", path, wide)
		}
		b.size(1280, 900)
		b.colours("dark")
		b.accessible(path+" dark", `runOnly: ["color-contrast"]`)
		b.shoot(name + "-dark")
		if path != "/nowhere" { // whose status is an error to the browser
			b.quiet(path)
		}
	}
}
