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
	"reflect"
	"strconv"
	"time"

	"github.com/ebbhq/ebb/access"
)

// route is one row of the table: what serves it and what describes it.
type route struct {
	method, path string
	id, summary  string
	scope        access.Scope
	status       int
	in, out      reflect.Type
	// once: an Idempotency-Key makes a repeated request safe.
	once  bool
	serve func(*route, http.ResponseWriter, *http.Request)
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
	act := func(req *http.Request, body []byte) (any, error) {
		in := new(In)
		if err := bind(req, body, reflect.ValueOf(in).Elem()); err != nil {
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
			s.once(w, req, key, body, func() (int, any, error) {
				out, err := act(req, body)
				return r.status, out, err
			})
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

// bind fills a route's input from path, query and body.
func bind(r *http.Request, body []byte, in reflect.Value) error {
	for i := range in.NumField() {
		field, value := in.Type().Field(i), in.Field(i)
		switch {
		case field.Name == "Body":
			if err := decode(body, value.Addr().Interface()); err != nil {
				return err
			}
		case field.Anonymous:
			if err := bind(r, nil, value); err != nil {
				return err
			}
		case field.Tag.Get("path") != "":
			value.SetString(r.PathValue(field.Tag.Get("path")))
		case field.Tag.Get("header") != "":
			value.SetString(r.Header.Get(field.Tag.Get("header")))
		default:
			name := field.Tag.Get("query")
			if given, ok := r.URL.Query()[name]; ok {
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
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return bad("%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad("must be one JSON object, and nothing after it")
	}
	return nil
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
