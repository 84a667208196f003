package access_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/clock"
	"github.com/ebbhq/ebb/store"
	"github.com/ebbhq/ebb/store/memory"
)

var t0 = time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)

type bench struct {
	*testing.T
	*access.Keeper
	store *memory.Store
	clock *clock.Fake
}

func newBench(t *testing.T) *bench {
	t.Helper()
	c := clock.NewFake(t0)
	s := memory.New(memory.Config{Clock: c})
	t.Cleanup(func() { _ = s.Close() })
	return &bench{t, keeper(t, s, c), s, c}
}

func keeper(t *testing.T, s store.Records, c clock.Clock) *access.Keeper {
	t.Helper()
	k, err := access.New(s, c, bytes.Repeat([]byte{7}, access.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (b *bench) token(n access.NewToken) (access.Token, string) {
	b.Helper()
	token, secret, err := b.CreateToken(b.Context(), n)
	if err != nil {
		b.Fatal(err)
	}
	return token, secret
}

func TestMay(t *testing.T) {
	all := access.Scopes()
	for own, want := range map[access.Scope]string{
		access.Read: "read", access.Produce: "read produce", access.Work: "read work",
		access.Operate: "read produce operate", access.Admin: "read produce work operate admin",
	} {
		p := access.Principal{Scopes: []access.Scope{own}}
		var got []string
		for _, s := range all {
			if p.May(s, "q") != p.May(s, "") {
				t.Errorf("%s: %s: a principal of all queues may alike everywhere", own, s)
			}
			if p.May(s, "q") {
				got = append(got, string(s))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: may %v, want %s", own, got, want)
		}
	}
	p := access.Principal{Scopes: []access.Scope{access.Operate}, Queues: []string{"mail"}}
	if !p.May(access.Operate, "mail") || p.May(access.Read, "bills") || p.May(access.Read, "") || !p.Has(access.Operate) || p.Has(access.Work) {
		t.Error("a principal of one queue may what it may there alone")
	}
	if (access.Principal{}).Has(access.Read) {
		t.Error("nobody may nothing")
	}
}

// TestSecretsAreNotStored: no record holds what opens a door.
func TestSecretsAreNotStored(t *testing.T) {
	b := newBench(t)
	_, secret := b.token(access.NewToken{Name: "ci", Scopes: []access.Scope{access.Read}})
	link, err := b.LoginURL(t.Context(), "http://127.0.0.1:7070/", access.Principal{Name: "maya", Scopes: []access.Scope{access.Admin}})
	if err != nil {
		t.Fatal(err)
	}
	base, once, _ := strings.Cut(link, "?once=")
	if base != "http://127.0.0.1:7070/login" {
		t.Fatalf("the link is %s", link)
	}
	cookie, err := b.Login(t.Context(), secret, "here")
	if err != nil {
		t.Fatal(err)
	}
	text := secret[strings.LastIndex(secret, "_")+1:]
	n := 0
	for _, kind := range []string{"token", "login", "session"} {
		rows, err := b.store.Records(t.Context(), store.RecordFilter{Kind: kind, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			n++
			for _, open := range []string{text, once, cookie} {
				if strings.Contains(string(r.Body)+r.ID+r.Ref, open) {
					t.Errorf("%s %s holds a secret", r.Kind, r.ID)
				}
			}
		}
	}
	if n != 3 {
		t.Fatalf("there are %d records, want 3", n)
	}
}

func TestTokens(t *testing.T) {
	b := newBench(t)
	token, secret := b.token(access.NewToken{Name: "ci", Scopes: []access.Scope{access.Produce}, Queues: []string{"mail"}, ExpiresAt: t0.Add(time.Hour)})
	p, err := b.Authenticate(t.Context(), secret)
	if err != nil || p.Name != "ci" || p.TokenID != token.ID || !p.May(access.Produce, "mail") || p.May(access.Produce, "") || p.Session {
		t.Fatalf("got %+v, %v", p, err)
	}
	last := map[bool]string{true: "B", false: "A"}[strings.HasSuffix(secret, "A")]
	for _, wrong := range []string{"", "ebb_", secret[:len(secret)-1], secret[:len(secret)-1] + last, secret + "A", strings.ToUpper(secret), "ebb_0123456789abcdef_" + secret[21:]} {
		if _, err := b.Authenticate(t.Context(), wrong); !errors.Is(err, access.ErrUnknown) {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
	b.clock.Advance(time.Hour)
	if _, err := b.Authenticate(t.Context(), secret); !errors.Is(err, access.ErrUnknown) {
		t.Fatalf("an expired token: %v", err)
	}
	if list, err := b.Tokens(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("got %v, %v", list, err)
	}
}

// TestRevocation: here at once, elsewhere within Remembered.
func TestRevocation(t *testing.T) {
	b := newBench(t)
	token, secret := b.token(access.NewToken{Name: "ci", Scopes: []access.Scope{access.Read}})
	other := keeper(t, b.store, b.clock)
	cookie, err := b.Login(t.Context(), secret, "here")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*access.Keeper{b.Keeper, other} {
		if _, err := k.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Session(t.Context(), cookie); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.RevokeToken(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	closed := func(k *access.Keeper) bool {
		_, asToken := k.Authenticate(t.Context(), secret)
		_, asSession := k.Session(t.Context(), cookie)
		return errors.Is(asToken, access.ErrUnknown) && errors.Is(asSession, access.ErrUnknown)
	}
	if !closed(b.Keeper) {
		t.Error("a token that was revoked here still opens here")
	}
	b.clock.Advance(access.Remembered)
	if !closed(other) {
		t.Error("a token that was revoked elsewhere still opens here")
	}
	if err := b.RevokeToken(t.Context(), token.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
}

func TestTokensAreChecked(t *testing.T) {
	b := newBench(t)
	read := []access.Scope{access.Read}
	for words, n := range map[string]access.NewToken{
		"token: the name must have 1 to 100 characters; it is whom the audit names":   {Scopes: read},
		"token: a: no scope; give one or more of read, produce, work, operate, admin": {Name: "a"},
		`token: a: scope "root": must be one of read, produce, work, operate, admin`:  {Name: "a", Scopes: []access.Scope{"root"}},
		"token: a: expires at 2026-02-21T09:00:00Z: must be in the future":            {Name: "a", Scopes: read, ExpiresAt: t0},
		"token: a: a queue's name is empty; name each, or none for all":               {Name: "a", Scopes: read, Queues: []string{""}},
		"token: a: scope admin is for all queues; leave them out, or take operate":    {Name: "a", Scopes: []access.Scope{access.Admin}, Queues: []string{"q"}},
	} {
		if _, _, err := b.CreateToken(t.Context(), n); !errors.Is(err, access.ErrInvalid) || err.Error() != words {
			t.Errorf("got %v, want %s", err, words)
		}
	}
}

// TestLoginOnce: of many who open one link, one is let in; and none later.
func TestLoginOnce(t *testing.T) {
	b := newBench(t)
	maya := access.Principal{Name: "maya", Scopes: []access.Scope{access.Admin}}
	link, err := b.LoginURL(t.Context(), "http://h", maya)
	if err != nil {
		t.Fatal(err)
	}
	_, once, _ := strings.Cut(link, "?once=")
	var group sync.WaitGroup
	cookies := make([]string, 8)
	for i := range cookies {
		group.Go(func() { cookies[i], _ = b.Login(t.Context(), once, "here") })
	}
	group.Wait()
	in := 0
	for _, c := range cookies {
		if c == "" {
			continue
		}
		in++
		p, err := b.Session(t.Context(), c)
		if err != nil || p.Name != "maya" || !p.Session || !p.May(access.Admin, "") {
			t.Fatalf("got %+v, %v", p, err)
		}
		b.clock.Advance(access.SessionFor)
		if _, err := b.Session(t.Context(), c); !errors.Is(err, access.ErrUnknown) {
			t.Fatalf("a session outlived its time: %v", err)
		}
	}
	if in != 1 {
		t.Fatalf("%d were let in, want 1", in)
	}
	link, err = b.LoginURL(t.Context(), "http://h", maya)
	if err != nil {
		t.Fatal(err)
	}
	_, once, _ = strings.Cut(link, "?once=")
	b.clock.Advance(access.LoginFor)
	if _, err := b.Login(t.Context(), once, "here"); !errors.Is(err, access.ErrUnknown) {
		t.Fatalf("a login outlived its time: %v", err)
	}
}

// TestLoginLimit: guessing is slow, for one address and for all together.
func TestLoginLimit(t *testing.T) {
	b := newBench(t)
	try := func(from string) error {
		_, err := b.Login(t.Context(), "guess", from)
		return err
	}
	for range access.MaxLogins {
		if err := try("a"); !errors.Is(err, access.ErrUnknown) {
			t.Fatal(err)
		}
	}
	if err := try("a"); !errors.Is(err, access.ErrTooMany) {
		t.Fatalf("try %d: %v", access.MaxLogins+1, err)
	}
	for i := range access.MaxLoginsAll - access.MaxLogins {
		if err := try(string(rune('b' + i))); !errors.Is(err, access.ErrUnknown) {
			t.Fatal(err)
		}
	}
	if err := try("z"); !errors.Is(err, access.ErrTooMany) {
		t.Fatalf("after %d tries of all: %v", access.MaxLoginsAll, err)
	}
	b.clock.Advance(time.Minute)
	if err := try("a"); !errors.Is(err, access.ErrUnknown) {
		t.Fatalf("a minute later: %v", err)
	}
}

func TestSeal(t *testing.T) {
	b := newBench(t)
	sealed, err := b.Seal([]byte("whsec"), "endpoint ep_1")
	if err != nil || bytes.Contains(sealed, []byte("whsec")) {
		t.Fatalf("got %q, %v", sealed, err)
	}
	if open, err := b.Open(sealed, "endpoint ep_1"); err != nil || string(open) != "whsec" {
		t.Fatalf("got %q, %v", open, err)
	}
	if _, err := b.Open(sealed, "endpoint ep_2"); err == nil {
		t.Error("it opened under another label")
	}
	sealed[len(sealed)-1] ^= 1
	if _, err := b.Open(sealed, "endpoint ep_1"); err == nil {
		t.Error("it opened though it was changed")
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	first, err := access.KeyFile(path)
	if err != nil || len(first) != access.KeySize {
		t.Fatalf("got %d bytes, %v", len(first), err)
	}
	if again, err := access.KeyFile(path); err != nil || !bytes.Equal(again, first) {
		t.Fatalf("read again: %v", err)
	}
	stat, err := os.Stat(path)
	if err != nil || stat.Mode().Perm() != 0o600 {
		t.Fatalf("got mode %v, %v", stat.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := access.KeyFile(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Fatalf("others may read it: %v", err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := access.KeyFile(path); err == nil {
		t.Fatal("a short key was taken")
	}
}
