package webhook

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAnswerUnpacks: what was asked for packed is unpacked, and nothing else.
func TestAnswerUnpacks(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, "thank you"); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, coding, body, want string
		headers                  map[string]string
	}{
		{name: "plain", body: "thank you", want: "thank you"},
		{name: "packed", coding: "gzip", body: packed.String(), want: "thank you"},
		{name: "packed, loudly", coding: "GZIP", body: packed.String(), want: "thank you"},
		{name: "another coding", coding: "br", body: "x", want: "x"},
		{name: "nothing, packed", coding: "gzip"},
		{name: "part of something packed", coding: "gzip", body: packed.String(), want: packed.String(), headers: map[string]string{"range": "bytes=0-10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &destination{headers: c.headers}
			var err error
			if d.blank, err = blank("https://example.com/in"); err != nil {
				t.Fatal(err)
			}
			req := d.request(t.Context(), &envelope{Event: "evt_1"}, time.Unix(1_800_000_000, 0), []byte("{}"))
			if asked := req.Header.Get("Accept-Encoding") == "gzip"; asked != (c.headers == nil) {
				t.Errorf("asked for gzip: %t", asked)
			}
			resp := &http.Response{Header: http.Header{"Content-Length": {"9"}}, Body: io.NopCloser(strings.NewReader(c.body))}
			resp.Header.Set("Content-Encoding", c.coding)
			got, err := io.ReadAll(answer(req, resp))
			if err != nil || string(got) != c.want {
				t.Errorf("read %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// TestRequestIsOneOfMany: requests to one endpoint share nothing that one of
// them may change.
func TestRequestIsOneOfMany(t *testing.T) {
	d := &destination{headers: map[string]string{"x-own": "1", "user-agent": "Mine/1", "webhook-id": "forged"}}
	var err error
	if d.blank, err = blank("https://example.com/in"); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_800_000_000, 0)
	one := d.request(t.Context(), &envelope{Event: "evt_1"}, at, []byte("first"))
	two := d.request(t.Context(), &envelope{Event: "evt_2", ContentType: "text/plain"}, at.Add(time.Second), nil)
	one.Header.Set("X-Own", "changed")
	for name, want := range map[string]string{
		"X-Own": "1", "User-Agent": "Mine/1", "Webhook-Id": "evt_2", "Webhook-Timestamp": "1800000001", "Content-Type": "text/plain",
	} {
		if got := two.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q alone", name, got, want)
		}
	}
	for range 2 { // a call that must be made anew takes the body anew
		body, err := one.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(body); err != nil || string(text) != "first" {
			t.Errorf("the body is %q, %v", text, err)
		}
	}
	if one.ContentLength != 5 || two.ContentLength != 0 || two.Body != http.NoBody {
		t.Errorf("lengths %d and %d, body %v", one.ContentLength, two.ContentLength, two.Body)
	}
}
