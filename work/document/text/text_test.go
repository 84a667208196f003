package text_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ebbhq/ebb/work/document/text"
)

// pdf makes a PDF with one line of text a page.
func pdf(pages ...string) []byte {
	var b bytes.Buffer
	var at []int
	object := func(format string, args ...any) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n"+format+"\nendobj\n", append([]any{len(at)}, args...)...)
	}
	b.WriteString("%PDF-1.4\n")
	kids := make([]string, len(pages))
	for i := range pages {
		kids[i] = fmt.Sprintf("%d 0 R", 4+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, line := range pages {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i)
		stream := fmt.Sprintf("BT /F1 12 Tf 72 720 Td (%s) Tj ET", line)
		object("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, xref)
	return b.Bytes()
}

func TestExtract(t *testing.T) {
	for _, c := range []struct {
		name, body, want string
	}{
		{"a.txt", "\ufeffInvoice 7\n", "Invoice 7"},
		{"a.TXT", "\xff\xfeI\x007\x00", "I7"},
		{"a.txt", "\xfe\xff\x00I\x007", "I7"},
		{"a.md", "# Title\n\ntext", "# Title\n\ntext"},
		{"a.json", `{"total": 7}`, `{"total": 7}`},
		{"a.csv", "a,b\n1,\"2\"\n", "a,b\n1,\"2\""},
		{"a.html", "<title>Bill</title><style>p{}</style><p>Pay <b>seven</b>\n dollars.</p><script>x()</script><table><tr><td>a<td>b</table>", "Bill\nPay seven dollars.\na\tb"},
		{"a.htm", "<p>one<p>two", "one\ntwo"},
		{"a.pdf", string(pdf("Invoice 4711", "Total 12 EUR")), "Invoice 4711\n\nTotal 12 EUR"},
	} {
		got, err := text.Extract(t.Context(), c.name, []byte(c.body), text.Limits{})
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestExtractRefuses(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name, body string
		limits     text.Limits
		ctx        context.Context //nolint:containedctx // of the case
		want       error
	}{
		{name: "a.docx", body: "x", want: text.ErrUnsupported},
		{name: "noextension", body: "x", want: text.ErrUnsupported},
		{name: "a.txt", body: "12345", limits: text.Limits{MaxBytes: 4}, want: text.ErrTooLarge},
		{name: "a.txt", body: "12345", limits: text.Limits{MaxText: 4}, want: text.ErrTooLarge},
		{name: "a.txt", body: "a\xffb", want: text.ErrCorrupt},
		{name: "a.txt", body: "a\x00b", want: text.ErrCorrupt},
		{name: "a.txt", body: " \n", want: text.ErrEmpty},
		{name: "a.json", body: "{", want: text.ErrCorrupt},
		{name: "a.html", body: "<script>only()</script>", want: text.ErrEmpty},
		{name: "a.pdf", body: "not a pdf", want: text.ErrCorrupt},
		{name: "a.pdf", body: string(pdf("one")[:120]), want: text.ErrCorrupt},
		{name: "a.pdf", body: string(pdf("")), want: text.ErrEmpty},
		{name: "a.pdf", body: string(pdf("one", "two")), limits: text.Limits{MaxPages: 1}, want: text.ErrTooLarge},
		{name: "a.pdf", body: string(pdf("one")), ctx: ended, want: context.Canceled},
	} {
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		if got, err := text.Extract(c.ctx, c.name, []byte(c.body), c.limits); !errors.Is(err, c.want) {
			t.Errorf("%s %q: %q, %v; want %v", c.name, c.body, got, err, c.want)
		}
	}
}

func TestExtensions(t *testing.T) {
	if got := strings.Join(text.Extensions(), " "); got != ".csv .htm .html .json .markdown .md .pdf .txt" {
		t.Error(got)
	}
	if !text.Supported("dir/A.PDF") || text.Supported("pdf") {
		t.Error("supported goes by the extension, whatever its case")
	}
}

// FuzzExtract: no bytes panic or hang a worker.
func FuzzExtract(f *testing.F) {
	f.Add(".pdf", pdf("seed"))
	f.Add(".html", []byte("<p>x<table><td>"))
	f.Add(".csv", []byte("a,\"b"))
	f.Fuzz(func(t *testing.T, extension string, body []byte) {
		l := text.Limits{MaxBytes: 64 << 10, MaxText: 64 << 10, MaxPages: 8}
		got, err := text.Extract(t.Context(), "x"+extension, body, l)
		if err == nil && (got == "" || len(got) > l.MaxText) {
			t.Errorf("%d bytes of text", len(got))
		}
	})
}
