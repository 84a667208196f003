package console

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/ebbhq/ebb/access"
)

// known lets in who has a session, or everybody where none are kept.
func (s *server) known(next handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Keeper != nil {
			p, err := s.session(r)
			switch {
			case errors.Is(err, access.ErrUnknown):
				s.askLogin(w, r, http.StatusUnauthorized, "")
				return
			case err != nil:
				s.fail(w, r, err)
				return
			}
			r = r.WithContext(access.WithPrincipal(r.Context(), p))
			if !p.Has(access.Read) {
				s.fail(w, r, &refusal{http.StatusForbidden, "This session may not read."})
				return
			}
		}
		if err := next(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

func (s *server) session(r *http.Request) (access.Principal, error) {
	cookie, err := r.Cookie(access.CookieName)
	if err != nil {
		return access.Principal{}, access.ErrUnknown
	}
	return s.Keeper.Session(r.Context(), cookie.Value)
}

// may refuses who lacks the scope for the queue; the empty queue stands for
// what is of all of them. Without sessions anybody may read.
func (s *server) may(r *http.Request, scope access.Scope, queue string) error {
	p, ok := access.PrincipalOf(r.Context())
	switch {
	case !ok && scope == access.Read:
		return nil
	case ok && p.May(scope, queue):
		return nil
	case queue == "":
		return &refusal{http.StatusForbidden, "This session lacks the scope " + string(scope) + " for all queues."}
	}
	return &refusal{http.StatusForbidden, "This session lacks the scope " + string(scope) + " for the queue " + queue + "."}
}

// queues are the only ones that the visitor may see; nil = all.
func queues(r *http.Request) []string {
	p, _ := access.PrincipalOf(r.Context())
	return p.Queues
}

// login spends a one-time login of the address, or a token that was pasted.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	if s.Keeper == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	once := r.FormValue("once")
	if once == "" || r.Method == http.MethodHead { // who only looks at the address spends nothing
		s.askLogin(w, r, http.StatusOK, "")
		return
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	value, err := s.Keeper.Login(r.Context(), once, from)
	switch {
	case errors.Is(err, access.ErrUnknown):
		s.askLogin(w, r, http.StatusUnauthorized, "That opens nothing: it is unknown, was used already, has expired or was revoked.")
	case errors.Is(err, access.ErrTooMany):
		s.askLogin(w, r, http.StatusTooManyRequests, "Too many tries from this address: wait a minute.")
	case err != nil:
		s.fail(w, r, err)
	default:
		http.SetCookie(w, access.Cookie(value, s.secure(r)))
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

func (s *server) askLogin(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	if err := s.show(w, r, status, "login.html", page{Title: "Log in", Body: wrong}); err != nil {
		s.fail(w, r, err)
	}
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(access.CookieName); err == nil && s.Keeper != nil {
		if err := s.Keeper.Logout(r.Context(), cookie.Value); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	http.SetCookie(w, access.Cookie("", s.secure(r)))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// secure reports whether the browser speaks TLS: to this server, or to a proxy
// before it that says so. Who lies about it shuts himself out alone.
func (s *server) secure(r *http.Request) bool {
	return s.Secure || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
