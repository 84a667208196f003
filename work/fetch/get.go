package fetch

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ebbhq/ebb/failure"
	"github.com/ebbhq/ebb/warc"
	"github.com/ebbhq/ebb/worker"
)

// Saved is a page to be kept.
type Saved struct {
	Fetch   string
	Seq     int64
	Start   int
	Attempt int
	Wave    int
	URL     string
	At      time.Time // policy time of the answer
	Body    *Body
	Content *Content // decoded
	Hops    []Exchange
	Kept    Kept
	// Original is the archive's record of the page: of an unchanged one as it
	// is known, of another as Write of an Archive leaves it.
	Original *warc.Original
}

// get fetches one page and keeps it.
func (r *Runner) get(ctx context.Context, t *worker.Task, args *pageArgs) (Kept, error) {
	j := t.Job()
	s := &Saved{Fetch: j.Batch, Seq: j.Seq, Start: t.Start(), Attempt: t.Attempt(), Wave: r.Wave(), URL: args.URL}
	header := r.o.Header
	was, known := r.validators(ctx, args.URL)
	if known {
		header = was.conditional(header)
	}
	part := r.part(j.Seq, t.Start())
	a, err := r.exchange(ctx, args.URL, header, part)
	defer a.drop()
	s.At, s.Hops = a.receivAt, a.hops
	if err == nil {
		err = r.judgeStatus(a, known, part)
	}
	if err != nil {
		return Kept{}, errors.Join(err, r.archive(s))
	}
	if known && a.resp.StatusCode == http.StatusNotModified {
		s.Original = was.Original
		s.Kept = Kept{Status: a.resp.StatusCode, Size: was.Size, SHA256: was.SHA256, Path: was.Path, Type: was.Type, Unchanged: true, Wave: s.Wave}
		return s.Kept, r.o.Sink.Unchanged(s)
	}
	if err := r.understand(ctx, s, a); err != nil {
		return Kept{}, errors.Join(err, r.archive(s))
	}
	if s.Kept.Links, err = r.follow(ctx, args, s.Body); err != nil {
		return Kept{}, err
	}
	if err := r.o.Sink.Keep(s); err != nil {
		return Kept{}, err
	}
	part.done()
	r.remember(s, a.resp.Header)
	return s.Kept, nil
}

// archive keeps the exchanges of a try that brought no page, where somebody
// keeps such things.
func (r *Runner) archive(s *Saved) error {
	if len(s.Hops) == 0 {
		return nil
	}
	return r.o.Sink.Failed(s)
}

// judgeStatus turns an answer that is no page into its failure.
func (r *Runner) judgeStatus(a *answer, known bool, part *part) error {
	switch code := a.resp.StatusCode; {
	case code == http.StatusNotModified && known:
		return nil
	case code == http.StatusRequestedRangeNotSatisfiable && part != nil && part.size > 0:
		part.done()
		return failure.New(failure.ShortBody, "range", errors.New("the rest of the page is not to be had: it has changed"))
	case code == http.StatusPartialContent && (part == nil || part.size == 0):
		return failure.New(failure.ShortBody, "partial", errors.New("a part of the page came, and nobody had asked for one"))
	}
	if f, bad := failure.Response(a.resp, a.receivAt); bad {
		a.hops[len(a.hops)-1].Profitless = true
		return &failure.Error{Failure: f}
	}
	return nil
}

// understand decodes the body and holds it against the rules.
func (r *Runner) understand(ctx context.Context, s *Saved, a *answer) error {
	if err := r.unpack(a); err != nil {
		return err
	}
	sum, err := digest(a.body)
	if err != nil {
		return ours("spool", err)
	}
	head, err := a.body.head(HeadSize)
	if err != nil {
		return ours("spool", err)
	}
	s.Body = &Body{
		URL: s.URL, Final: a.final, Status: a.resp.StatusCode, Type: a.resp.Header.Get("Content-Type"),
		Size: a.body.size, SHA256: sum, Head: head,
	}
	s.Content = &Content{a.body}
	s.Kept = Kept{Status: s.Body.Status, Type: s.Body.Type, Size: s.Body.Size, SHA256: sum, Wave: s.Wave}
	if a.final != s.URL {
		s.Kept.Final = a.final
	}
	bad := r.judge(ctx, s.Body)
	if class := failure.Classify(bad).Class; class == failure.SoftError || class == failure.Empty {
		return errors.Join(bad, r.o.Sink.Quarantine(s, bad))
	}
	return bad
}

// bombRatio is how much larger than its packed form a body over bombFrom may
// be.
const (
	bombRatio = 1000
	bombFrom  = 64 << 20
)

// unpack decodes the body, within the limits.
func (r *Runner) unpack(a *answer) error {
	a.body = a.raw
	switch encoding := strings.ToLower(strings.TrimSpace(a.resp.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
	default:
		return failure.Fatal(failure.New(failure.InvalidOutput, "encoding", fmt.Errorf("content encoding %q, which was not asked for", encoding)))
	}
	z, err := gzip.NewReader(a.raw.reader())
	if err != nil {
		return failure.New(failure.ShortBody, "gzip", err)
	}
	most := min(r.o.MaxBody, max(bombFrom, bombRatio*a.raw.size))
	out := &spool{temp: r.o.Sink.Temp}
	a.body = out
	_, err = io.Copy(spoolWriter{out}, io.LimitReader(z, most+1))
	var local *localError
	switch {
	case errors.As(err, &local):
		return local.err
	case err != nil:
		return failure.New(failure.ShortBody, "gzip", err)
	case out.size > most:
		return failure.Fatal(failure.New(failure.TooLarge, "unpacked", fmt.Errorf("%d bytes unpack to more than %d", a.raw.size, most)))
	}
	return nil
}

// digest is the SHA-256 of a body in hexadecimal.
func digest(s *spool) (string, error) { return sumOf(s.reader()) }

func sumOf(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
