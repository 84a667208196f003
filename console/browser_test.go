package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/ebbhq/ebb/access"
)

// chromium is the one browser of this test binary: tests open tabs in it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop context.CancelFunc
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	if lived.past.file != "" {
		_ = os.RemoveAll(filepath.Dir(lived.past.file))
	}
	os.Exit(code)
}

func startChromium() {
	dir, err := os.MkdirTemp("", "ebb-chromium-")
	if err != nil {
		chromium.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(dir),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	allocated, free := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closed := chromedp.NewContext(allocated)
	chromium.ctx = ctx //nolint:fatcontext // made once
	chromium.err = chromedp.Do(ctx)
	chromium.stop = func() {
		closed()
		free()
		_ = os.RemoveAll(dir)
	}
}

// tab is a page of the browser, with cookies of its own, that notes whatever
// goes wrong in it.
type tab struct {
	*testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	messages []string
}

func newTab(t *testing.T, url string) *tab {
	t.Helper()
	chromium.once.Do(startChromium)
	if chromium.err != nil {
		t.Fatalf("chromium: %v; make unit installs it", chromium.err)
	}
	ctx, closed := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	t.Cleanup(func() {
		cancel()
		closed()
	})
	b := &tab{T: t, ctx: ctx, url: url}
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.IsException() {
				b.mu.Lock()
				b.messages = append(b.messages, m.String())
				b.mu.Unlock()
			}
		}
	}()
	b.size(1280, 900)
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		at, _ := chromedp.Run(b.ctx, chromedp.Location())
		b.Fatalf("at %s: %v", at, err)
	}
}

func ask[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

func (b *tab) open(path string) {
	b.Helper()
	b.do(chromedp.Navigate(b.url + path))
}

func (b *tab) size(width, height int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// colours chooses light or dark.
func (b *tab) colours(scheme string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		b.Fatal(err)
	}
}

// text is what can be read on the page.
func (b *tab) text() string {
	b.Helper()
	return ask[string](b, "document.body.innerText")
}

// sees fails unless all of the texts can be read.
func (b *tab) sees(texts ...string) {
	b.Helper()
	text := b.text()
	for _, want := range texts {
		if !strings.Contains(text, want) {
			b.Errorf("%s: %q is not to be read:\n%s", ask[string](b, "location.href"), want, text)
		}
	}
}

// press clicks the button or link of that name, and waits for the page that
// follows.
func (b *tab) press(name string) {
	b.Helper()
	xpath := fmt.Sprintf(`//main//button[normalize-space()=%q] | //main//a[normalize-space()=%q] | //header//button[normalize-space()=%q]`, name, name, name)
	if !ask[bool](b, fmt.Sprintf("document.evaluate(%q, document, null, XPathResult.BOOLEAN_TYPE).booleanValue", xpath)) {
		b.Fatalf("%s has no %q to press:\n%s", ask[string](b, "location.href"), name, b.text())
	}
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.Search(xpath))); err != nil {
		b.Fatalf("press %s at %s: %v\n%s", name, ask[string](b, "location.href"), err, b.text())
	}
}

// fill writes into the field of that name.
func (b *tab) fill(name, text string) {
	b.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(fmt.Sprintf("main [name=%s]", name)), text))
}

// quiet fails if the page complained since the last time.
func (b *tab) quiet(what string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		b.Errorf("%s: the browser's console: %s", what, m)
	}
	b.messages = nil
}

// enter logs in by a one-time address, with the scope operate.
func (w *world) enter() *tab {
	w.Helper()
	at, err := w.keeper.LoginURL(w.Context(), w.url, access.Principal{Name: "maya", Scopes: []access.Scope{access.Operate}})
	w.ok(err)
	b := newTab(w.T, w.url)
	b.do(chromedp.Navigate(at))
	return b
}

// cookieOf is the value of the tab's session.
func (w *world) cookieOf(b *tab) string {
	w.Helper()
	got, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{})
	w.ok(err)
	for _, c := range got.Cookies {
		if c.Name == access.CookieName {
			return c.Value
		}
	}
	w.Fatal("no session")
	return ""
}

// axe is axe-core, which make unit installs.
var axe = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile("../.cache/npm/node_modules/axe-core/axe.min.js")
	if err != nil {
		return "", fmt.Errorf("%w; make unit installs it: scripts/npm-part axe-core@4.14.0", err)
	}
	return string(text), nil
})

// accessible fails on whatever axe-core finds serious or critical. It is
// evaluated by the debugger, so that the page's own policy stands.
func (b *tab) accessible(what, options string) {
	b.Helper()
	source, err := axe()
	if err != nil {
		b.Fatal(err)
	}
	if !ask[bool](b, `"axe" in window`) {
		ask[any](b, source+";null")
	}
	found := ask[string](b, `axe.run(document, {resultTypes: ["violations"], `+options+`}).then(r => JSON.stringify(
		r.violations.filter(v => v.impact === "serious" || v.impact === "critical").map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => n.html + " " + n.failureSummary)}))))`)
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		b.Fatal(err)
	}
	for _, v := range violations {
		b.Errorf("%s: axe-core: %s: %s\n%s", what, v.ID, v.Help, strings.Join(v.Nodes, "\n"))
	}
}

// shoot writes a screenshot, if the variable EBB_SHOTS names a directory: for
// those who change how a page looks.
func (b *tab) shoot(name string) {
	b.Helper()
	dir := os.Getenv("EBB_SHOTS")
	if dir == "" {
		return
	}
	for _, width := range []int64{390, 1280, 1920} {
		b.size(width, 900)
		png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.png", name, width)), png, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.size(1280, 900)
}
