package document

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

var english = message.NewPrinter(language.English)

// maxComplaints is how many places of an answer an error names.
const maxComplaints = 3

// schemaError says in one line where an answer breaks its schema, and what
// would be right there. It names places, not values.
func schemaError(err error) error {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err
	}
	var all []string
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			all = append(all, "at /"+strings.Join(e.InstanceLocation, "/")+": "+e.ErrorKind.LocalizedString(english))
			return
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(v)
	more := ""
	if n := len(all) - maxComplaints; n > 0 {
		all, more = all[:maxComplaints], fmt.Sprintf("; and %d more", n)
	}
	return errors.New("the answer breaks its schema: " + strings.Join(all, "; ") + more)
}
