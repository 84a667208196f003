package text

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// hidden elements say nothing to a reader.
var hidden = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true, atom.Svg: true, atom.Iframe: true, atom.Head: true,
}

// block elements stand on lines of their own.
var block = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Br: true, atom.Li: true, atom.Tr: true, atom.Table: true, atom.Ul: true, atom.Ol: true,
	atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true, atom.Section: true, atom.Article: true,
	atom.Header: true, atom.Footer: true, atom.Blockquote: true, atom.Pre: true, atom.Hr: true, atom.Dt: true, atom.Dd: true, atom.Title: true,
}

// fromHTML gives the title and the text that a reader sees, a line a block, a
// tab a cell.
func fromHTML(ctx context.Context, body []byte, l Limits) (string, error) {
	source, err := plain(ctx, body, l)
	if err != nil {
		return "", err
	}
	root, err := html.Parse(strings.NewReader(source))
	if err != nil {
		return "", fmt.Errorf("%w: not HTML: %w", ErrCorrupt, err)
	}
	var page lines
	if title := find(root, atom.Title); title != nil && title.FirstChild != nil {
		page.words(title.FirstChild.Data)
		page.end()
	}
	page.walk(root)
	page.end()
	return strings.Join(page.done, "\n"), nil
}

func find(n *html.Node, a atom.Atom) *html.Node {
	for d := range n.Descendants() {
		if d.DataAtom == a {
			return d
		}
	}
	return nil
}

// lines gathers text with its white space folded.
type lines struct {
	done    []string
	current strings.Builder
}

func (p *lines) walk(n *html.Node) {
	switch {
	case n.Type == html.TextNode:
		p.words(n.Data)
		return
	case n.Type == html.ElementNode && hidden[n.DataAtom]:
		return
	case n.DataAtom == atom.Td || n.DataAtom == atom.Th:
		if p.current.Len() > 0 {
			p.current.WriteByte('\t')
		}
	case block[n.DataAtom]:
		p.end()
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		p.walk(c)
	}
	if block[n.DataAtom] {
		p.end()
	}
}

func (p *lines) words(text string) {
	words := strings.Fields(text)
	if len(words) == 0 {
		if text != "" {
			p.space()
		}
		return
	}
	if strings.TrimLeft(text, " \t\r\n") != text {
		p.space()
	}
	p.current.WriteString(strings.Join(words, " "))
	if strings.TrimRight(text, " \t\r\n") != text {
		p.space()
	}
}

func (p *lines) space() {
	if s := p.current.String(); s != "" && !strings.HasSuffix(s, " ") && !strings.HasSuffix(s, "\t") {
		p.current.WriteByte(' ')
	}
}

func (p *lines) end() {
	if line := strings.TrimSpace(p.current.String()); line != "" {
		p.done = append(p.done, line)
	}
	p.current.Reset()
}
