package file

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ebbhq/ebb/policy"
)

// LockPath returns where the lock of a policy file stands: beside it.
func LockPath(path string) string { return path + ".lock" }

// PrintLock writes the lock of accepted policies: their versions, then their
// canonical bodies, sorted by name, so that a review sees what changed. Equal
// policies give equal bytes; there is no date in it.
func PrintLock(policies []policy.Policy) (string, error) {
	sorted := slices.Clone(policies)
	slices.SortFunc(sorted, func(a, b policy.Policy) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	b.WriteString("# Accepted retry policies, written by: ebb policy accept\n")
	b.WriteString("# Review changes, do not edit: each body must match its version.\n")
	fmt.Fprintf(&b, "version: %d\n%s:\n", FormatVersion, acceptedKey)
	for i, p := range sorted {
		sealed, err := policy.Seal(p)
		if err != nil {
			return "", fmt.Errorf("policy lock: %s: %w", p.Name, err)
		}
		if sealed.Version != p.Version {
			return "", fmt.Errorf("policy lock: %s: the policy was changed after it was sealed; seal it again", p.Name)
		}
		if i > 0 && sorted[i-1].Name == p.Name {
			return "", fmt.Errorf("policy lock: %s: given twice; accept one policy of a name", p.Name)
		}
		fmt.Fprintf(&b, "  %s: %q\n", quoteName(p.Name), p.Version)
	}
	printPolicies(&b, sorted)
	return b.String(), nil
}

// WriteLock writes the lock of accepted policies to path, whole or not at all.
func WriteLock(path string, policies []policy.Policy) error {
	if len(policies) == 0 {
		return errors.New("policy lock: no policies to accept")
	}
	text, err := PrintLock(policies)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("policy lock: %s is a directory; the lock is a file, remove it", path)
	}
	if err := replace(path, text); err != nil {
		return fmt.Errorf("policy lock: %w", err)
	}
	return nil
}

// replace writes a file under another name and renames it, so that a crash
// leaves the old or the new one.
func replace(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is the one to tell
		}
	}()
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// ReadLock reads the accepted policies, sorted by name. A lock that is not
// there is fs.ErrNotExist; one that was edited or torn is refused.
func ReadLock(path string) ([]policy.Policy, error) {
	src, err := readAtMost(path, MaxSize+1)
	if err != nil {
		return nil, fmt.Errorf("policy lock: %w", err)
	}
	f, accepted, errs := parse(path, src, true)
	if len(errs) > 0 {
		return nil, fmt.Errorf("policy lock: edited or torn; run ebb policy accept again:\n%w", errs)
	}
	for _, e := range f.Entries {
		want, ok := accepted[e.Policy.Name]
		if !ok {
			return nil, fmt.Errorf("policy lock: %s: %s has no accepted version; run ebb policy accept again", e.at, e.Policy.Name)
		}
		if want != e.Policy.Version {
			return nil, fmt.Errorf("policy lock: %s: %s was edited or torn: its body is version %s, accepted was %s; run ebb policy accept again",
				e.at, e.Policy.Name, e.Policy.Version, want)
		}
		delete(accepted, e.Policy.Name)
	}
	if missing := slices.Sorted(maps.Keys(accepted)); len(missing) > 0 {
		return nil, fmt.Errorf("policy lock: %s: the body of %s is missing; run ebb policy accept again", path, strings.Join(missing, ", "))
	}
	// A torn body of a preset's name would inherit what it lost: only the
	// whole text proves that nothing is missing.
	text, err := PrintLock(f.Policies())
	if err != nil {
		return nil, err
	}
	if lockBody(text) != lockBody(string(src)) {
		return nil, fmt.Errorf("policy lock: %s: edited or torn: not in the form that ebb policy accept writes; run it again", path)
	}
	return f.Policies(), nil
}

// lockBody is a lock without the comments at its top.
func lockBody(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
