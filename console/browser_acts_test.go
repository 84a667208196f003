package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ebbhq/ebb/engine"
	"github.com/ebbhq/ebb/job"
)

// state asks the store, not the page.
func (w *world) state(id string) job.State {
	w.Helper()
	j, err := w.ops.Job(w.Context(), id)
	w.ok(err)
	return j.State
}

func TestBrowserLogin(t *testing.T) {
	w := newWorld(t)
	b := w.enter()
	b.sees("Overview", "maya")
	if at := ask[string](b, "location.pathname + location.search"); at != "/" {
		t.Errorf("after the login at %s: the one-time word stays in the address", at)
	}
	b.press("Log out")
	b.sees("Log in")
	b.fill("once", "wrong")
	b.press("Log in")
	b.sees("That opens nothing")
	b.accessible("/login", "")
}

func TestBrowserActs(t *testing.T) {
	w := newWorld(t)
	b := w.enter()

	b.open("/jobs/" + w.died)
	b.press("Retry with fresh attempts")
	b.sees("The job is queued again.")
	b.press("Cancel")
	b.sees("The job is cancelled")
	if got := w.state(w.died); got != job.Cancelled {
		t.Errorf("the job is %s", got)
	}
	b.open("/jobs/" + w.waiting)
	b.press("Run it now")
	b.sees("queued")

	b.open("/queue?name=reports")
	b.press("Resume")
	b.sees("Resumed.")
	b.press("Pause")
	b.sees("Paused: nothing more starts.", "by maya")

	b.open("/target?name=" + mail)
	b.fill("minutes", "5")
	b.press("Pause")
	b.sees("Paused: nothing more starts.", "maya")
	b.do(chromedp.Click(chromedp.CSS("[name=keep]")))
	b.press("Resume")
	b.sees("Resumed.")

	b.open("/dead")
	b.press("invoice 1712: the amount <0> & currency are missing")
	b.sees("fingerprint")
	b.fill("rate", "10")
	b.press("Count what a redrive would move")
	b.sees("Redrive 4 jobs?", "10 a second")
	b.press("Redrive 4")
	b.sees("The redrive is ordered.")
	all, err := w.ops.Redrives(t.Context(), 10)
	w.ok(err)
	if len(all) != 2 || all[1].Actor != "maya" || all[1].Rate != 10 {
		t.Errorf("ordered %+v", all)
	}

	b.open("/jobs")
	b.do(chromedp.SetValue(chromedp.CSS("[name=state]"), "queued"))
	b.fill("target", crm)
	b.press("Filter")
	b.press("Cancel…")
	b.sees("Cancel: 16 jobs?", "queued · target "+crm)
	b.press("Cancel: all that match")
	b.sees("Begun.")
	if !ask[bool](b, `(async () => { for (let i = 0; i < 500; i++) { await refresh(); if (document.querySelector("#bulks .state.done")) return true; } return false; })()`) {
		t.Errorf("the act does not end:\n%s", b.text())
	}
	b.sees("16", "No job matches.")
	if list, err := w.ops.Jobs(t.Context(), engine.Filter{Target: crm, State: job.Cancelled}, engine.Page{}); err != nil || len(list.Jobs) != 16 {
		t.Errorf("%d jobs are cancelled, %v", len(list.Jobs), err)
	}

	b.open("/jobs?key=order-")
	b.sees("order-17", "order-18")
	b.press("Run now…")
	b.sees("Run now: 2 jobs?", "key with “order-”")
	b.press("Leave them")
	b.sees("order-18")

	b.open("/simulate")
	b.fill("minutes", "2")
	b.fill("arrival", "2")
	b.press("Simulate")
	b.sees("for 2 min", "Seed 1.")
	b.quiet("acts")
}

// TestBrowserKeyboard: the first stop is the way past the navigation, every
// stop can be seen, and a form can be sent without a mouse.
func TestBrowserKeyboard(t *testing.T) {
	w := newWorld(t)
	b := w.enter()
	b.open("/jobs")
	b.do(chromedp.KeyEvent(kb.Tab))
	if got := ask[string](b, "document.activeElement.textContent"); got != "Skip to the page" {
		t.Errorf("the first stop is %q", got)
	}
	if left := ask[float64](b, "document.activeElement.getBoundingClientRect().left"); left < 0 {
		t.Errorf("the skip link stands at %v px when it has the focus", left)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	seen := map[string]bool{}
	for range 12 {
		b.do(chromedp.KeyEvent(kb.Tab))
		at := ask[string](b, "document.activeElement.tagName + ' ' + (document.activeElement.name || document.activeElement.textContent)")
		seen[at] = true
		if ask[bool](b, "document.activeElement.closest('header') !== null") {
			t.Errorf("%s: the skip link does not lead past the navigation", at)
		}
		if style := ask[string](b, "getComputedStyle(document.activeElement).outlineStyle"); style != "solid" {
			t.Errorf("%s: the focus cannot be seen: outline %s", at, style)
		}
	}
	for _, want := range []string{"SELECT state", "INPUT kind", "BUTTON Filter"} {
		if !seen[want] {
			t.Errorf("%s is no stop: %v", want, seen)
		}
	}
	b.do(chromedp.Focus(chromedp.CSS("[name=kind]")), chromedp.KeyEvent("bill"))
	if _, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent(kb.Enter)); err != nil {
		t.Fatal(err)
	}
	if at := ask[string](b, "location.search"); !strings.Contains(at, "kind=bill") {
		t.Errorf("the form sent %s", at)
	}
}

// TestBrowserWithoutScript: everything reads and acts.
func TestBrowserWithoutScript(t *testing.T) {
	w := newWorld(t)
	b := w.enter()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	w.ok(err)
	for _, p := range browserPages {
		b.open(w.named(p.path))
		text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("body")))
		w.ok(err)
		for _, want := range p.sees {
			if want = w.named(want); !strings.Contains(text, want) {
				t.Errorf("%s: %q cannot be read without a script", p.path, want)
			}
		}
	}
	b.open("/")
	if live, err := chromedp.Run(b.ctx, chromedp.AttributeValue(chromedp.CSS("#pulse"), "hidden")); err != nil || !live.Exists {
		t.Errorf("the page says that it is live, and is not: %v", err)
	}
	b.open("/queue?name=mail")
	b.do(chromedp.Click(chromedp.CSS("main form button")), chromedp.WaitVisible(chromedp.CSS(".notice")))
	queues, err := w.ops.Queues(t.Context())
	w.ok(err)
	for _, q := range queues {
		if q.Name == "mail" && !q.Paused {
			t.Error("the form did not act")
		}
	}
}

// TestBrowserLive: what changes is swapped in, without the page being loaded
// again and without moving what the reader had unfolded or scrolled.
func TestBrowserLive(t *testing.T) {
	w := newWorld(t)
	b := w.enter()
	b.size(390, 844)
	b.open("/")
	ask[any](b, `window.mark = "kept"; document.querySelector(".list").scrollLeft = 40; null`)
	w.add(engine.NewJob{Kind: "mail", Queue: "brand-new"})
	b.open("/#") // the same page: nothing is loaded
	ask[any](b, "refresh()")
	b.sees("brand-new", "live")
	if mark, left := ask[string](b, "window.mark"), ask[int](b, `document.querySelector(".list").scrollLeft`); mark != "kept" || left != 40 {
		t.Errorf("mark %q, scrolled to %d: the page was loaded again", mark, left)
	}
	w.ok(w.keeper.Logout(t.Context(), w.cookieOf(b)))
	ask[any](b, "refresh()")
	b.sees("logged out: load the page again", "brand-new")
}
