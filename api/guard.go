package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ebbhq/ebb/access"
)

// strict sets the headers of every answer: nothing of it is a page, nothing
// is kept, nothing is guessed.
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		next.ServeHTTP(w, r)
	})
}

// known lets in who has a token or a session, and refuses paths that name no
// route: strangers are not told which exist.
func (s *server) known(next *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := s.principal(r)
		if err != nil {
			s.problemOf(r, err).write(w)
			return
		}
		if p.Session {
			if err := s.cross.Check(r); err != nil {
				problem(http.StatusForbidden, "cross_origin", "use a token from elsewhere than the console", "a request of another site: %v", err).write(w)
				return
			}
		}
		r = r.WithContext(access.WithPrincipal(r.Context(), p))
		if bent(r.URL) {
			problem(http.StatusNotFound, "not_found", "write names in paths percent-encoded", "no such path").write(w)
			return
		}
		if _, pattern := next.Handler(r); pattern == "" {
			s.unrouted(next, r).write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// principal reads the token, or the cookie where no token is given.
func (s *server) principal(r *http.Request) (access.Principal, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return access.Principal{}, access.ErrUnknown
		}
		return s.Keeper.Authenticate(r.Context(), strings.TrimSpace(token))
	}
	cookie, err := r.Cookie(access.CookieName)
	if err != nil {
		return access.Principal{}, access.ErrUnknown
	}
	return s.Keeper.Session(r.Context(), cookie.Value)
}

// bent reports whether a path would mean another one: names are whole
// segments, and none is empty or climbs.
func bent(u *url.URL) bool {
	for part := range strings.SplitSeq(strings.TrimPrefix(u.EscapedPath(), "/"), "/") {
		name, err := url.PathUnescape(part)
		if err != nil || name == "" || name == "." || name == ".." {
			return true
		}
	}
	return false
}

// unrouted tells a wrong method from a path that does not exist.
func (s *server) unrouted(mux *http.ServeMux, r *http.Request) *Problem {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		return problem(http.StatusMethodNotAllowed, "method", "use "+strings.Join(allowed, " or "), "%s is not served here", r.Method)
	}
	return problem(http.StatusNotFound, "not_found", "GET /openapi.json lists what is served", "no such path")
}

// guarded lets in who has the route's scope for one queue at least; which
// queue it is about, the route itself asks.
func (s *server) guarded(route *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := access.PrincipalOf(r.Context())
		if !p.Has(route.scope) {
			forbidden(p, route.scope, "").write(w)
			return
		}
		route.serve(route, w, r)
	})
}

// forbidden names the scope that is missing; the empty queue is any, or all.
func forbidden(p access.Principal, scope access.Scope, where string) *Problem {
	if where != "" {
		where = " for " + where
	}
	has := fmt.Sprintf("%v", p.Scopes)
	if p.Queues != nil {
		has += fmt.Sprintf(" for the queues %v", p.Queues)
	}
	return problem(http.StatusForbidden, "forbidden", "ebb token create NAME --scope "+string(scope), "scope %s%s is missing: %s has %s", scope, where, p.Name, has)
}
