package webhook

import (
	"encoding/json"
	"math"
	"strconv"
)

// encode is the attempt as JSON. What a success leaves is written by hand:
// every delivery ends with it, and reflection cost more than the signature.
func (a *Attempt) encode() []byte {
	if body, ok := a.plain(); ok {
		return body
	}
	body, err := json.Marshal(a)
	if err != nil { // strings and numbers only
		return nil
	}
	return body
}

// plain writes a success as encoding/json would, if no text needs an escape.
func (a *Attempt) plain() (body []byte, ok bool) {
	if a.Class != "" || a.Reason != "" || a.Error != "" || len(a.RequestHeaders) > 0 || len(a.ResponseHeaders) > 0 {
		return nil, false
	}
	w := object{b: make([]byte, 0, 240+len(a.URL)+len(a.Excerpt))}
	w.b = strconv.AppendInt(append(w.b, `{"start":`...), int64(a.Start), 10)
	w.text("url", a.URL, true)
	w.text("remote_addr", a.RemoteAddr, false)
	w.text("proto", a.Proto, false)
	w.flag("reused", a.Reused)
	w.number("status", float64(a.Status), false)
	w.number("size", float64(a.Size), false)
	w.flag("truncated", a.Truncated)
	w.text("excerpt", a.Excerpt, false)
	w.number("dns_ms", a.DNS, false)
	w.number("connect_ms", a.Connect, false)
	w.number("tls_ms", a.TLS, false)
	w.number("first_byte_ms", a.FirstByte, false)
	w.number("total_ms", a.Total, true)
	return append(w.b, '}'), !w.strange
}

// object is a JSON object that is being written, after its first field. What is
// zero is left out unless it must be there.
type object struct {
	b       []byte
	strange bool // something is beyond these few lines
}

func (w *object) name(name string) {
	w.b = append(append(append(w.b, ',', '"'), name...), '"', ':')
}

func (w *object) text(name, value string, must bool) {
	if value == "" && !must {
		return
	}
	for i := range len(value) {
		switch c := value[i]; {
		case c < ' ' || c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			w.strange = true
			return
		}
	}
	w.name(name)
	w.b = append(append(append(w.b, '"'), value...), '"')
}

func (w *object) flag(name string, value bool) {
	if value {
		w.name(name)
		w.b = append(w.b, "true"...)
	}
}

// number writes one that has no exponent in JSON and is exact as a float.
func (w *object) number(name string, value float64, must bool) {
	if value == 0 && !must {
		return
	}
	if abs := math.Abs(value); abs != 0 && !(abs >= 1e-6 && abs < 1<<53) {
		w.strange = true
		return
	}
	w.name(name)
	w.b = strconv.AppendFloat(w.b, value, 'f', -1, 64)
}
