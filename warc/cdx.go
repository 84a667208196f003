package warc

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Format is a form of index: a header line, if it has one, and one line an
// entry.
type Format struct {
	Header string // with its line end
	// Line is the entry's line with its end, "" if this form has no place for it.
	Line func(Entry) string
	// Sorted says that readers search the lines by halving: they must be
	// sorted by their bytes, the header first.
	Sorted bool
}

// The forms that tools read.
var (
	// CDX has the eleven columns of the Wayback Machine.
	CDX = Format{Header: " CDX N b a m s k r M S V g\n", Line: cdxLine, Sorted: true}
	// WgetCDX is what `wget --warc-dedup=FILE` reads: its own columns, with the
	// record's id. It keeps one record a digest, and refers to it: a revisit must
	// not take the place of the response.
	WgetCDX = Format{Header: " CDX a b a m s k r M V g u\n", Line: wgetLine}
	// CDXJ is what pywb and its kin read.
	CDXJ = Format{Line: cdxjLine, Sorted: true}
)

const stamp = "20060102150405"

// cell is a column that holds something and no space.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return strings.NewReplacer(" ", "%20", "\t", "%09", "\n", "%0A", "\r", "%0D").Replace(s)
}

func (e Entry) status() string {
	if e.Status == 0 {
		return ""
	}
	return strconv.Itoa(e.Status)
}

func line(cells ...string) string {
	for i, c := range cells {
		cells[i] = cell(c)
	}
	return strings.Join(cells, " ") + "\n"
}

func cdxLine(e Entry) string {
	return line(SURT(e.URL), e.Date.UTC().Format(stamp), e.URL, e.MIME, e.status(), e.Digest, e.Redirect, "",
		strconv.FormatInt(e.Length, 10), strconv.FormatInt(e.Offset, 10), e.File)
}

func wgetLine(e Entry) string {
	if e.MIME == "warc/revisit" || len(e.Digest) != 32 { // base32 of SHA-1
		return ""
	}
	return line(e.URL, e.Date.UTC().Format(stamp), e.URL, e.MIME, e.status(), e.Digest, e.Redirect, "",
		strconv.FormatInt(e.Offset, 10), e.File, e.ID)
}

func cdxjLine(e Entry) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteString(cell(SURT(e.URL)) + " " + e.Date.UTC().Format(stamp) + " ")
	// Numbers are strings here, as pywb writes and expects them.
	enc.Encode(struct { //nolint:errcheck,errchkjson // strings into memory
		URL      string `json:"url"`
		MIME     string `json:"mime,omitempty"`
		Status   string `json:"status,omitempty"`
		Digest   string `json:"digest,omitempty"`
		Length   string `json:"length"`
		Offset   string `json:"offset"`
		Filename string `json:"filename"`
	}{e.URL, e.MIME, e.status(), e.Digest, strconv.FormatInt(e.Length, 10), strconv.FormatInt(e.Offset, 10), e.File})
	return b.String()
}
