package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Found is what an artifact's glob matched.
type Found struct {
	Artifact
	Files   []string
	Size    int64
	Records int64  // of WARC files
	Broken  string // the first file that is not whole, and why
}

// Proof is what is known of a run that says it succeeded.
type Proof struct {
	Found []Found
	Units int64
	Last  int64 // units of the run that it is compared with; 0 = none
}

// prove returns what is missing; empty if the success is proven.
func (s *Success) prove(p Proof) []string {
	var missing []string
	say := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	for _, f := range p.Found {
		if want := max(f.Count, 1); len(f.Files) < want {
			say("%d files match %s, want %d", len(f.Files), f.Glob, want)
			continue
		}
		if f.Size < f.Bytes {
			say("%s holds %d bytes, want %d", f.Glob, f.Size, f.Bytes)
		}
		if f.WARC && f.Broken != "" {
			say("%s", f.Broken)
		} else if f.WARC && f.Records == 0 {
			say("%s holds no WARC record", f.Glob)
		}
	}
	if p.Units < s.Units {
		say("%d units, want %d", p.Units, s.Units)
	}
	if least := s.Coverage * float64(p.Last); float64(p.Units) < least {
		say("%d units are %.0f %% of the last run's %d, want %.0f %%", p.Units, 100*float64(p.Units)/float64(p.Last), p.Last, 100*s.Coverage)
	}
	return missing
}

// matches lists the files of a glob, relative to dir unless absolute.
func matches(dir, glob string) []string {
	if !filepath.IsAbs(glob) {
		glob = filepath.Join(dir, glob)
	}
	list, err := filepath.Glob(glob)
	if err != nil {
		return nil // checked by Seal
	}
	return slices.DeleteFunc(list, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	})
}

// look measures the artifacts of an attempt.
func (s *Service) look(spec *Spec, v Vars) []Found {
	var all []Found
	for _, a := range spec.Success.Artifacts {
		a.Glob, _ = v.expand(a.Glob)
		f := Found{Artifact: a, Files: matches(spec.Cwd, a.Glob)}
		for _, path := range f.Files {
			if info, err := os.Stat(path); err == nil {
				f.Size += info.Size()
			}
			if !a.WARC {
				continue
			}
			n, err := s.config.CountWARC(path)
			f.Records += n
			if err != nil && f.Broken == "" {
				f.Broken = strings.TrimPrefix(path, spec.Cwd+"/") + ": " + err.Error()
			}
		}
		all = append(all, f)
	}
	return all
}
