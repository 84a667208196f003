package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/engine"
)

// route is one row of the table: what serves it and what describes it.
type route struct {
	method, path string
	id, summary  string
	scope        access.Scope
	status       int
	in, out      reflect.Type
	// once: an Idempotency-Key makes a repeated request safe.
	once bool
	// enqueued makes the answer of a route that only enqueues, whose key is
	// kept in the enqueue's transaction; nil for others.
	enqueued func([]engine.Enqueued) any
	serve    func(*route, http.ResponseWriter, *http.Request)
}

// none is the answer of a route that has none, and the body of one that takes
// none.
type none struct{}

// handle makes a route. In's fields have the tags path or query with the
// parameter's name; a field Body is the request's JSON. The answer is Out.
func handle[In, Out any](s *server, scope access.Scope, method, path, id, summary string, do func(context.Context, *In) (Out, error)) route {
	r := route{
		method: method, path: path, id: id, summary: summary, scope: scope, status: http.StatusOK,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](), once: method == http.MethodPost,
	}
	if r.out == reflect.TypeFor[none]() {
		r.status = http.StatusNoContent
	}
	known := parametersNamed(r.in)
	act := func(req *http.Request, body []byte) (any, error) {
		query, err := asked(req, known)
		if err != nil {
			return nil, err
		}
		in := new(In)
		if err := bind(req, query, body, reflect.ValueOf(in).Elem()); err != nil {
			return nil, err
		}
		return do(req.Context(), in)
	}
	r.serve = func(r *route, w http.ResponseWriter, req *http.Request) {
		body, err := s.body(w, req)
		if err != nil {
			s.problemOf(req, err).write(w)
			return
		}
		if key := req.Header.Get(keyHeader); key != "" && r.once {
			s.once(w, req, r, key, body, func(ctx context.Context) (any, error) { return act(req.WithContext(ctx), body) })
			return
		}
		out, err := act(req, body)
		if err != nil {
			s.problemOf(req, err).write(w)
			return
		}
		reply(w, r.status, out)
	}
	return r
}

// body reads the request's body, up to the limit.
func (s *server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	large := func() *Problem {
		w.Header().Set("Connection", "close")
		return problem(http.StatusRequestEntityTooLarge, "too_large", "send less at once", "the body is larger than %d bytes", s.MaxBody)
	}
	if r.ContentLength > s.MaxBody {
		return nil, large()
	}
	if coded := r.Header.Get("Content-Encoding"); coded != "" && !strings.EqualFold(coded, "identity") {
		return nil, problem(http.StatusUnsupportedMediaType, "media_type", "send it as it is", "the body is encoded with %.20q", coded)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, large()
	case err != nil:
		w.Header().Set("Connection", "close")
		return nil, problem(http.StatusRequestTimeout, "body", "send the whole body without a pause", "the body could not be read")
	}
	if len(body) > 0 {
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
			return nil, problem(http.StatusUnsupportedMediaType, "media_type", "send Content-Type: application/json (curl --json does)", "the body must be JSON")
		}
	}
	return body, nil
}

// parametersNamed are the names of a route's query parameters.
func parametersNamed(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			names = append(names, parametersNamed(f.Type)...)
		} else if name := f.Tag.Get("query"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// asked reads the query. One that is not known is refused: a filter with a
// typing error would select everything.
func asked(r *http.Request, known []string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem(http.StatusBadRequest, "parameter", "percent-encode names and values", "the query cannot be read: %v", err)
	}
	for name := range query {
		if slices.Contains(known, name) {
			continue
		}
		try := "leave it out; there are none here"
		if len(known) > 0 {
			try = "one of " + strings.Join(known, ", ")
		}
		return nil, problem(http.StatusBadRequest, "parameter", try, "parameter %.100q: there is no such parameter", name)
	}
	return query, nil
}

// bind fills a route's input from path, query and body.
func bind(r *http.Request, query url.Values, body []byte, in reflect.Value) error {
	for i := range in.NumField() {
		field, value := in.Type().Field(i), in.Field(i)
		switch {
		case field.Name == "Body":
			if err := decode(body, value.Addr().Interface()); err != nil {
				return err
			}
		case field.Anonymous:
			if err := bind(r, query, nil, value); err != nil {
				return err
			}
		case field.Tag.Get("path") != "":
			value.SetString(r.PathValue(field.Tag.Get("path")))
		case field.Tag.Get("header") != "":
			value.SetString(r.Header.Get(field.Tag.Get("header")))
		default:
			name := field.Tag.Get("query")
			if given, ok := query[name]; ok {
				if err := set(value, given); err != nil {
					return problem(http.StatusBadRequest, "parameter", "write it as /openapi.json says", "parameter %s: %v", name, err)
				}
			}
		}
	}
	return nil
}

// decode reads JSON strictly: one value, no unknown fields.
func decode(body []byte, into any) error {
	bad := func(format string, args ...any) error {
		return problem(http.StatusBadRequest, "json", "write it as /openapi.json says", "the body: "+format, args...)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		if reflect.TypeOf(into).Elem().Kind() == reflect.Struct && optional(reflect.TypeOf(into).Elem()) {
			return nil
		}
		return bad("must be a JSON object")
	}
	if !utf8.Valid(body) {
		return bad("must be UTF-8; other bytes go into the fields with the suffix _base64")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return bad("%s", inJSON(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad("must be one JSON object, and nothing after it")
	}
	return nil
}

// inJSON tells what is wrong with a body in the words of JSON, not of Go.
func inJSON(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	want := "an object"
	switch kind.Type.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		want = "a whole number that is not too large"
	case reflect.Float64:
		want = "a number that is not too large"
	case reflect.Slice:
		want = "an array"
	}
	what := ""
	if kind.Field != "" {
		what = kind.Field + ": "
	}
	return what + "got " + kind.Value + ", want " + want
}

// optional reports whether nothing of a body is required.
func optional(t reflect.Type) bool {
	for _, f := range fieldsOf(t) {
		if !f.optional {
			return false
		}
	}
	return true
}

// set reads a query parameter.
func set(v reflect.Value, given []string) error {
	if v.Type() == reflect.TypeFor[[]string]() {
		v.Set(reflect.ValueOf(given))
		return nil
	}
	if len(given) != 1 {
		return errors.New("must be given once")
	}
	text := given[0]
	switch {
	case v.Kind() == reflect.Pointer: // told apart from one that is not given
		v.Set(reflect.New(v.Type().Elem()))
		return set(v.Elem(), given)
	case v.Type() == reflect.TypeFor[time.Time]():
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("%q: must be an instant such as 2026-02-21T09:00:00Z", text)
		}
		v.Set(reflect.ValueOf(t))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		yes, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q: must be true or false", text)
		}
		v.SetBool(yes)
	case v.Kind() == reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q: must be a whole number", text)
		}
		v.SetInt(int64(n))
	default:
		panic("api: a parameter of type " + v.Type().String())
	}
	return nil
}
