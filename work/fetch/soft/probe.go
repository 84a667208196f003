package soft

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
)

// ProbeURL is a URL beside the given one, in normal form, that cannot exist:
// the same directory and ending, a name made of draw. What a host answers
// there with status 200, it answers for pages that are gone.
func ProbeURL(url string, draw uint64) string {
	scheme, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	slash := strings.LastIndexByte(rest, '/')
	if slash < 0 {
		rest, slash = rest+"/", len(rest)
	}
	ending := ""
	if dot := strings.LastIndexByte(rest, '.'); dot > slash && len(rest)-dot <= 6 {
		ending = rest[dot:]
	}
	return fmt.Sprintf("%s://%sebb-probe-%016x%s", scheme, rest[:slash+1], draw, ending)
}

// Place is where a probe counts: the URL's directory with its ending.
func Place(url string) string {
	url, _, _ = strings.Cut(url, "?")
	dir := url[:strings.LastIndexByte(url, '/')+1]
	if dot := strings.LastIndexByte(url, '.'); dot > len(dir) && len(url)-dot <= 6 {
		return dir + "*" + url[dot:]
	}
	return dir + "*"
}

// look is what is kept of a probe's answer.
type look struct {
	digest string
	title  string
	size   int64
	words  []uint64 // sketch
}

type probes struct {
	mu    sync.RWMutex
	looks map[string][]look
}

// maxLooks are the probes kept of one place.
const maxLooks = 4

// Probed tells the judge what a probe's URL answered with status 200. A host
// that answers its probes with 4xx is honest: tell nothing.
func (j *Judge) Probed(a Answer) {
	j.probes.mu.Lock()
	defer j.probes.mu.Unlock()
	if j.probes.looks == nil {
		j.probes.looks = make(map[string][]look)
	}
	place := Place(a.URL)
	if len(j.probes.looks[place]) < maxLooks {
		j.probes.looks[place] = append(j.probes.looks[place], lookOf(&a))
	}
}

func lookOf(a *Answer) look {
	return look{digest: a.Digest, title: a.Title, size: a.Size, words: sketchOf(a.Body[:min(len(a.Body), MaxBody)])}
}

// ask compares an answer with those of the probes of its place: the same body,
// or, as error pages repeat the path, the same title, nearly the same size and
// nearly the same words.
func (p *probes) ask(a *Answer) (Verdict, bool) {
	p.mu.RLock()
	looks := p.looks[Place(a.URL)]
	p.mu.RUnlock()
	if len(looks) == 0 {
		return Verdict{}, false
	}
	got := lookOf(a)
	for _, probe := range looks {
		if got.digest == probe.digest && got.digest != "" {
			return Verdict{Error, "probe", "the body is what the host answers for a path that cannot exist"}, true
		}
		difference := max(got.size, probe.size) - min(got.size, probe.size)
		if got.title != probe.title || difference*10 > probe.size {
			continue
		}
		if same := likeness(got.words, probe.words); same >= alike {
			return Verdict{Error, "probe", fmt.Sprintf("title and %.0f %% of the words are what the host answers for a path that cannot exist", 100*same)}, true
		}
	}
	return Verdict{}, false
}

const (
	sketchSize = 128
	alike      = 0.85 // the share of words from which on two pages are one
)

// sketchOf are the least hashes of the text's words, three at a time, sorted.
// Two sketches tell how much of their texts is the same.
func sketchOf(body []byte) []uint64 {
	words := bytes.Fields(body)
	all := make([]uint64, 0, len(words))
	for i := range words {
		h := fnv.New64a()
		for _, w := range words[i:min(i+3, len(words))] {
			h.Write(w)
			h.Write([]byte{' '})
		}
		all = append(all, h.Sum64())
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.Clone(all[:min(len(all), sketchSize)])
}

// likeness is the share of the two texts' word groups that both have: exact
// for short texts, an estimate for long ones.
func likeness(a, b []uint64) float64 {
	both, total := 0, 0
	for len(a) > 0 && len(b) > 0 && total < sketchSize {
		total++
		switch {
		case a[0] == b[0]:
			both++
			a, b = a[1:], b[1:]
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	total = min(total+len(a)+len(b), sketchSize)
	if total == 0 {
		return 1
	}
	return float64(both) / float64(total)
}
