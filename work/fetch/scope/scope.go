// Package scope answers "does this URL belong to the fetch?": the one spelling
// of a URL, the links of a document, and the rules that let a URL in. There
// are no caps of pages or depth: what ends a crawl is its rules.
package scope
