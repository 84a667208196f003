package webhook

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"
)

// TestEnvelopePlain: the short way reads what encoding/json reads, or leaves it
// to that.
func TestEnvelopePlain(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9._/;= -]{0,20}`))
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")).UTC()
		head, err := json.Marshal(envelope{Event: text.Draw(t, "event"), Type: text.Draw(t, "type"), ContentType: text.Draw(t, "content type"), SentAt: at})
		if err != nil {
			t.Fatal(err)
		}
		if i := rapid.IntRange(0, 3*len(head)).Draw(t, "spoilt"); i < len(head) {
			head[i] = rapid.Byte().Draw(t, "by")
		}
		var got, want envelope
		if !got.plain(string(head)) {
			return
		}
		if err := json.Unmarshal(head, &want); err != nil || got != want {
			t.Errorf("%s: read %+v, encoding/json %+v, %v", head, got, want, err)
		}
	})
}

func TestEnvelopePlainReads(t *testing.T) {
	sent := time.Date(2026, 11, 15, 20, 15, 1, 123456000, time.UTC)
	for _, c := range []struct {
		e     envelope
		plain bool
	}{
		{envelope{Event: "evt_1", Type: "order.paid", SentAt: sent}, true},
		{envelope{Event: "evt_1", Type: "order.paid", ContentType: "text/plain; charset=utf-8", SentAt: sent}, true},
		{envelope{Event: "evt_1", Type: "order.paid"}, true},
		{envelope{Event: "evt_1", Type: "a<b", SentAt: sent}, false},
		{envelope{Event: "evt_1", Type: "grün", SentAt: sent}, false},
		{envelope{Event: `evt"1`, Type: "x", SentAt: sent}, false},
	} {
		args, err := pack(c.e, []byte("payload\nof two lines"))
		if err != nil {
			t.Fatal(err)
		}
		got, payload, err := unpack(args)
		if err != nil || got != c.e || string(payload) != "payload\nof two lines" {
			t.Errorf("%+v: unpacked %+v, %q, %v", c.e, got, payload, err)
		}
		head, _, _ := bytes.Cut(args, []byte{'\n'})
		if plain := new(envelope).plain(string(head)); plain != c.plain {
			t.Errorf("%s: read the short way: %t, want %t", head, plain, c.plain)
		}
	}
}

// TestSignaturesAgree: what is signed here is what the spec's own library
// signs, whatever was signed before with the same pen.
func TestSignaturesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 0)
		keys := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), minSecret, maxSecret), 1, 3).Draw(t, "keys")
		var signers []signer
		var want []string
		for range rapid.IntRange(1, 3).Draw(t, "messages") {
			id, payload := rapid.String().Draw(t, "id"), rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
			want = want[:0]
			for i, key := range keys {
				hook, err := standardwebhooks.NewWebhookRaw(key)
				if err != nil {
					t.Fatal(err)
				}
				one, err := hook.Sign(id, at, payload)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, one)
				if i < len(signers) {
					continue
				}
				k, err := newSigner(secretText(key), time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				signers = append(signers, k)
			}
			if got := signatures(signers, id, strconv.FormatInt(at.Unix(), 10), at, payload); got != strings.Join(want, " ") {
				t.Fatalf("signed %s, the library %s", got, want)
			}
		}
	})
}

// TestAttemptEncodes: by hand as by encoding/json.
func TestAttemptEncodes(t *testing.T) {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringMatching(`[a-zA-Z0-9.:/ {}-]{0,30}`))
	number := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(-1e22, 1e22), rapid.Map(rapid.IntRange(0, 1e8), func(n int) float64 { return ms(time.Duration(n)) }))
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		a := &Attempt{
			Start: rapid.IntRange(0, 1e6).Draw(t, "start"), URL: text.Draw(t, "url"), RemoteAddr: text.Draw(t, "remote"), Proto: text.Draw(t, "proto"),
			Reused: rapid.Bool().Draw(t, "reused"), Status: rapid.IntRange(0, 599).Draw(t, "status"), Error: rapid.SampledFrom([]string{"", "", "no"}).Draw(t, "error"),
			Size: rapid.Int64().Draw(t, "size"), Truncated: rapid.Bool().Draw(t, "truncated"), Excerpt: text.Draw(t, "excerpt"),
			DNS: number.Draw(t, "dns"), Connect: number.Draw(t, "connect"), FirstByte: number.Draw(t, "first byte"), Total: number.Draw(t, "total"),
		}
		want, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.encode(); string(got) != string(want) {
			t.Errorf("wrote\n%s, encoding/json\n%s", got, want)
		}
		if _, ok := a.plain(); ok {
			plain++
		}
	})
	usual := Attempt{Start: 1, URL: "https://example.com/in/0", RemoteAddr: "192.0.2.1:443", Proto: "HTTP/2.0", Reused: true, Status: 200, FirstByte: 2.541, Total: 2.545}
	const want = `{"start":1,"url":"https://example.com/in/0","remote_addr":"192.0.2.1:443","proto":"HTTP/2.0","reused":true,"status":200,"first_byte_ms":2.541,"total_ms":2.545}`
	if got, ok := usual.plain(); !ok || string(got) != want {
		t.Errorf("the usual one: %t, %s", ok, got)
	}
	if plain == 0 {
		t.Error("none was written by hand")
	}
}

func TestSignaturesExpire(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	secret := secretText(bytes.Repeat([]byte{1}, secretSize))
	for _, c := range []struct {
		expires time.Time
		n       int
	}{{time.Time{}, 1}, {at.Add(time.Second), 1}, {at, 0}} {
		k, err := newSigner(secret, c.expires)
		if err != nil {
			t.Fatal(err)
		}
		if got := signatures([]signer{k}, "evt_1", "1800000000", at, nil); strings.Count(got, "v1,") != c.n {
			t.Errorf("expires %v: signed %q, want %d signatures", c.expires, got, c.n)
		}
	}
}
