package scope

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// Link is one URL that a document names.
type Link struct {
	URL  string // in normal form
	From string // where it stands: "a href", "css url", "meta refresh"
	// Asset says that the document needs it to be shown: an image, a style, a
	// script, a frame; otherwise it leads elsewhere.
	Asset bool
}

// Document is what a page says of itself and of others.
type Document struct {
	Title string // white space joined; of HTML
	Links []Link // each URL once, in the order of the document
	// NoFollow says that a robots meta element asks not to follow its links.
	NoFollow bool
}

// Read reads an HTML or CSS document that was fetched from base, a URL in
// normal form. Other types have no links. Forms are not followed: to send one
// is more than to fetch.
func Read(base, contentType string, body io.Reader) (Document, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, _, _ = strings.Cut(strings.ToLower(contentType), ";")
		media = strings.TrimSpace(media)
	}
	switch media {
	case "text/html", "application/xhtml+xml":
	case "text/css":
		text, err := io.ReadAll(body)
		if err != nil {
			return Document{}, err
		}
		c := collector{base: base}
		c.css(string(text))
		return c.document(), nil
	default:
		return Document{}, nil
	}
	body, err = charset.NewReader(body, contentType)
	if errors.Is(err, io.EOF) {
		return Document{}, nil // empty
	}
	if err != nil {
		return Document{}, err
	}
	c := collector{base: base}
	if err := c.html(body); err != nil {
		return Document{}, err
	}
	return c.document(), nil
}

// reference is a link before the document's base is known.
type reference struct {
	text, from string
	asset      bool
}

type collector struct {
	base    string
	hasBase bool
	title   strings.Builder
	inTitle bool
	inSVG   int // the title of a drawing is not the page's
	titled  bool
	refs    []reference
	noFol   bool
	within  bool // a noscript element, whose text is read as HTML
}

func (c *collector) add(text, from string, asset bool) {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasPrefix(text, "#") {
		return
	}
	c.refs = append(c.refs, reference{text, from, asset})
}

// document resolves what was found. Mail addresses, scripts and whatever else
// cannot be fetched are passed over.
func (c *collector) document() Document {
	d := Document{Title: strings.Join(strings.Fields(c.title.String()), " "), NoFollow: c.noFol}
	seen := make(map[string]bool)
	for _, r := range c.refs {
		url, err := Resolve(c.base, r.text)
		if err != nil || seen[url] {
			continue
		}
		seen[url] = true
		d.Links = append(d.Links, Link{URL: url, From: r.from, Asset: r.asset})
	}
	return d
}

func (c *collector) html(body io.Reader) error {
	z := html.NewTokenizer(body)
	var raw atom.Atom // the element whose text comes next
	for {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return err
			}
			return nil
		case html.TextToken:
			c.text(raw, z.Text())
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			raw = token.DataAtom
			c.start(token)
		case html.EndTagToken:
			name, _ := z.TagName()
			raw = 0
			switch atom.Lookup(name) {
			case atom.Title:
				c.titled = c.titled || c.inTitle
				c.inTitle = false
			case atom.Svg:
				c.inSVG = max(c.inSVG-1, 0)
			}
		}
	}
}

// text reads what stands in an element.
func (c *collector) text(of atom.Atom, text []byte) {
	switch {
	case of == atom.Style:
		c.css(string(text))
	case (of == atom.Noscript || of == atom.Noframes) && !c.within:
		c.within = true
		c.html(bytes.NewReader(text)) //nolint:errcheck // memory has no faults
		c.within = false
	case c.inTitle:
		c.title.Write(text)
	}
}

// start reads one element's beginning.
func (c *collector) start(t html.Token) {
	switch t.DataAtom {
	case atom.Title:
		c.inTitle = c.inSVG == 0 && !c.titled && t.Type == html.StartTagToken
	case atom.Svg:
		if t.Type == html.StartTagToken {
			c.inSVG++
		}
	case atom.Base:
		c.setBase(value(t, "href"))
	case atom.Meta:
		c.meta(t)
	case atom.Link:
		c.link(t)
	case atom.Input:
		if strings.EqualFold(value(t, "type"), "image") {
			c.add(value(t, "src"), "input src", true)
		}
	default:
		c.attributes(t)
	}
	if s := value(t, "style"); s != "" {
		c.css(s)
	}
}

// attributesOf are the attributes that hold a URL, by element.
var attributesOf = map[string][]string{
	"a": {"href"}, "area": {"href"}, "img": {"src", "srcset", "longdesc"}, "source": {"src", "srcset"}, "script": {"src"},
	"iframe": {"src"}, "frame": {"src"}, "embed": {"src"}, "object": {"data"}, "video": {"src", "poster"}, "audio": {"src"},
	"track": {"src"}, "body": {"background"}, "table": {"background"}, "td": {"background"}, "th": {"background"},
	"image": {"href", "xlink:href"}, "use": {"href", "xlink:href"}, "q": {"cite"}, "blockquote": {"cite"},
}

func (c *collector) attributes(t html.Token) {
	for _, name := range attributesOf[t.Data] {
		text := value(t, name)
		asset := t.Data != "a" && t.Data != "area" && name != "longdesc" && name != "cite"
		if name != "srcset" {
			c.add(text, t.Data+" "+name, asset)
			continue
		}
		for _, candidate := range srcset(text) {
			c.add(candidate, t.Data+" srcset", asset)
		}
	}
}

// setBase takes the first base element, which counts for the whole document.
func (c *collector) setBase(href string) {
	if c.hasBase || href == "" {
		return
	}
	c.hasBase = true
	if base, err := Resolve(c.base, href); err == nil {
		c.base = base
	}
}

func (c *collector) meta(t html.Token) {
	content := value(t, "content")
	if strings.EqualFold(value(t, "http-equiv"), "refresh") {
		c.add(refresh(content), "meta refresh", false)
	}
	if strings.EqualFold(value(t, "name"), "robots") {
		for word := range strings.SplitSeq(strings.ToLower(content), ",") {
			word = strings.TrimSpace(word)
			c.noFol = c.noFol || word == "nofollow" || word == "none"
		}
	}
}

// link reads a link element, but not those that only warm a connection up.
func (c *collector) link(t html.Token) {
	asset := false
	for rel := range strings.FieldsSeq(strings.ToLower(value(t, "rel"))) {
		switch rel {
		case "dns-prefetch", "preconnect":
			return
		case "stylesheet", "icon", "apple-touch-icon", "mask-icon", "manifest", "preload", "modulepreload":
			asset = true
		}
	}
	c.add(value(t, "href"), "link href", asset)
	for _, candidate := range srcset(value(t, "imagesrcset")) {
		c.add(candidate, "link imagesrcset", true)
	}
}

func value(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
