package text

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/ledongthuc/pdf"
)

// fromPDF gives the text of the pages in their order, a blank line between
// two. The parser panics on some broken files; that is the file's fault.
func fromPDF(ctx context.Context, body []byte, l Limits) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("%w: not a readable PDF: %v", ErrCorrupt, r)
		}
	}()
	doc, err := pdf.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return "", fmt.Errorf("%w: not a readable PDF: %w", ErrCorrupt, err)
	}
	pages := doc.NumPage()
	if pages > l.MaxPages {
		return "", fmt.Errorf("%w: %d pages; the limit is %d", ErrTooLarge, pages, l.MaxPages)
	}
	var all strings.Builder
	for i := 1; i <= pages; i++ {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		page, err := doc.Page(i).GetPlainText(nil)
		if err != nil {
			return "", fmt.Errorf("%w: page %d: %w", ErrCorrupt, i, err)
		}
		if page = strings.TrimSpace(strings.ToValidUTF8(page, "")); page == "" {
			continue
		}
		if all.Len() > 0 {
			all.WriteString("\n\n")
		}
		all.WriteString(page)
		if all.Len() > l.MaxText {
			return "", fmt.Errorf("%w: more than %d bytes of text by page %d of %d", ErrTooLarge, l.MaxText, i, pages)
		}
	}
	return all.String(), nil
}
