package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"gocloud.dev/blob"
)

func isPattern(key string) bool { return strings.ContainsAny(key, "*?[") }

// matches is path.Match with ** for any number of directories.
func matches(pattern, key string) bool {
	return matchParts(strings.Split(pattern, "/"), strings.Split(key, "/"))
}

func matchParts(pattern, key []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for i := range len(key) + 1 {
				if matchParts(pattern[1:], key[i:]) {
					return true
				}
			}
			return false
		}
		if len(key) == 0 {
			return false
		}
		if ok, err := path.Match(pattern[0], key[0]); err != nil || !ok {
			return false
		}
		pattern, key = pattern[1:], key[1:]
	}
	return len(key) == 0
}

// maxInputs bounds what one submission may name.
const maxInputs = 100_000

// expand lists the objects that inputs name, patterns too, in their order.
func (s *Service) expand(ctx context.Context, inputs []string) ([]Object, error) {
	var all []Object
	for _, at := range inputs {
		o, err := parsePattern(at)
		if err != nil {
			return nil, err
		}
		if !isPattern(o.Key) {
			all = append(all, o)
			continue
		}
		found, err := s.list(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("document: %s: %w", at, err)
		}
		if len(found) == 0 {
			return nil, invalidf("document: %s: matches nothing", at)
		}
		all = append(all, found...)
		if len(all) > maxInputs {
			return nil, invalidf("document: more than %d documents at once: submit them in parts", maxInputs)
		}
	}
	return all, nil
}

func (s *Service) list(ctx context.Context, pattern Object) ([]Object, error) {
	if err := checkPattern(pattern.Key); err != nil {
		return nil, err
	}
	b, err := s.buckets.bucket(ctx, pattern.Bucket)
	if err != nil {
		return nil, invalidf("%v", err)
	}
	prefix := pattern.Key[:strings.IndexAny(pattern.Key, "*?[")]
	var found []Object
	for it := b.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := it.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			slices.SortFunc(found, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
			return found, nil
		case err != nil:
			return nil, err
		case !o.IsDir && matches(pattern.Key, o.Key):
			found = append(found, Object{pattern.Bucket, o.Key})
		}
		if len(found) > maxInputs {
			return nil, invalidf("more than %d documents at once: submit them in parts", maxInputs)
		}
	}
}

func checkPattern(pattern string) error {
	for _, part := range strings.Split(pattern, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return invalidf("pattern %q: %v", pattern, err)
		}
	}
	return nil
}
