package console

import (
	"net/http"

	"github.com/ebbhq/ebb/access"
)

// maxActs is how many rows of the audit a page has.
const maxActs = 200

// audit shows who ordered what, to those who may order it.
func (s *server) audit(w http.ResponseWriter, r *http.Request) error {
	if s.Keeper != nil {
		if err := s.may(r, access.Operate, ""); err != nil {
			return err
		}
	}
	list, err := s.Ops.Acts(r.Context(), maxActs)
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "audit.html", page{Title: "Audit", Nav: "audit", Body: list})
}
