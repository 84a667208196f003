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
