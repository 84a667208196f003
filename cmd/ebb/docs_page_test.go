package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a part of a page that is not prose: between fences, or indented.
type block struct {
	page   string
	from   int // index of its first line of text in the page
	indent string
	lang   string // of the fence; empty for none and for indented text
	lines  []string
}

func (b *block) text() string { return strings.Join(b.lines, "\n") + "\n" }

// blocks finds the blocks of a page, and returns it without them.
func blocks(page, text string) (found []block, prose string) {
	const indent = "    "
	lines := strings.Split(text, "\n")
	var rest strings.Builder
	for i := 0; i < len(lines); i++ {
		lang, fence := strings.CutPrefix(lines[i], "```")
		switch {
		case fence:
			end := i + 1
			for end < len(lines) && lines[end] != "```" {
				end++
			}
			found = append(found, block{page: page, from: i + 1, lang: lang, lines: lines[i+1 : end]})
			i = end
		case strings.HasPrefix(lines[i], indent) && (i == 0 || lines[i-1] == ""):
			b := block{page: page, from: i, indent: indent}
			for ; i < len(lines) && strings.HasPrefix(lines[i], indent); i++ {
				b.lines = append(b.lines, strings.TrimPrefix(lines[i], indent))
			}
			i--
			found = append(found, b)
		default:
			rest.WriteString(lines[i] + "\n")
		}
	}
	return found, rest.String()
}

var typed = regexp.MustCompile(`^(\$ |(ebb|make|go|git|curl|docker|podman|kubectl|systemctl|sudo|apt|apt-get|export|cd|cat) )`)

// shell tells whether a block is commands for a shell: its fence says so, or
// one of its lines begins like one.
func (b *block) shell() bool {
	switch b.lang {
	case "sh", "bash", "shell", "console":
		return true
	case "":
		return slices.ContainsFunc(b.lines, typed.MatchString)
	}
	return false
}

// command is a line that a reader types, and what the page shows as its answer.
type command struct {
	text   string
	asked  bool // it begins with $: what follows is its answer
	from   int  // index in the page of the answer's first line
	answer []string
}

// commands reads a block of the shell. Where a line begins with $, those are
// the commands and all others their answers; else every line is a command.
func (b *block) commands() []command {
	dialogue := slices.ContainsFunc(b.lines, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	var list []command
	for i := 0; i < len(b.lines); i++ {
		line, prompt := strings.CutPrefix(b.lines[i], "$ ")
		if dialogue && !prompt {
			last := &list[len(list)-1]
			last.answer = append(last.answer, line)
			continue
		}
		for strings.HasSuffix(line, `\`) && i+1 < len(b.lines) {
			i++
			line += "\n" + b.lines[i]
		}
		if len(simple(line)) > 0 {
			list = append(list, command{text: line, asked: prompt, from: b.from + i + 1})
		}
	}
	return list
}

// simple splits what is typed into its simple commands, and each of them into
// words: as much of the shell's grammar as the pages use. The commands of a
// substitution are among them; the substitution stays a word.
func simple(text string) [][]string {
	var (
		list     [][]string
		words    []string
		word     strings.Builder
		within   bool // a word has begun
		redirect bool // the next word is a file's name
	)
	endWord := func() {
		if within && !redirect {
			words = append(words, word.String())
		}
		if within {
			redirect = false
		}
		word.Reset()
		within = false
	}
	end := func() {
		endWord()
		if len(words) > 0 {
			list = append(list, words)
		}
		words = nil
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'' || c == '"':
			close := strings.IndexByte(text[i+1:], c)
			if close < 0 {
				close = len(text) - i - 1
			}
			word.WriteString(text[i+1 : i+1+close])
			within = true
			i += close + 1
		case c == '\\' && i+1 < len(text):
			if i++; text[i] != '\n' {
				word.WriteByte(text[i])
				within = true
			}
		case strings.HasPrefix(text[i:], "$("):
			inner := balanced(text[i+2:])
			list = append(list, simple(inner)...)
			word.WriteString("$(" + inner + ")")
			within = true
			i += len(inner) + 2
		case c == '#' && !within:
			end()
			next := strings.IndexByte(text[i:], '\n')
			if next < 0 {
				return list
			}
			i += next
		case c == ' ' || c == '\t':
			endWord()
		case strings.IndexByte("|&;()\n", c) >= 0:
			end()
		case c == '>' || c == '<':
			if within && strings.Trim(word.String(), "0123456789") == "" {
				word.Reset()
				within = false
			}
			endWord()
			redirect = true
			for i+1 < len(text) && strings.IndexByte(">&", text[i+1]) >= 0 {
				i++
			}
		default:
			word.WriteByte(c)
			within = true
		}
	}
	end()
	return list
}

// balanced returns the text up to the parenthesis that closes it.
func balanced(text string) string {
	depth := 1
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return text[:i]
			}
		}
	}
	return text
}

func TestSimpleCommands(t *testing.T) {
	for text, want := range map[string]string{
		`ebb serve   # sends them`:                              `ebb|serve`,
		`ebb job enqueue --args '{"to": "ada"}' --at "+2 h"`:    `ebb|job|enqueue|--args|{"to": "ada"}|--at|+2 h`,
		`ebb backup /b/e-$(date +%F).db --quiet && find /b`:     `date|+%F / ebb|backup|/b/e-$(date +%F).db|--quiet / find|/b`,
		"ebb document submit 'in/*' \\\n  --run":                `ebb|document|submit|in/*|--run`,
		`cat p.yaml | ebb policy lint - 2>&1 > out.txt`:         `cat|p.yaml / ebb|policy|lint|-`,
		`(sleep 1; ebb webhook send > /dev/null) & ebb demo`:    `sleep|1 / ebb|webhook|send / ebb|demo`,
		`EBB_TOKEN=$(ebb token create w --scope work) ./w.py`:   `ebb|token|create|w|--scope|work / EBB_TOKEN=$(ebb token create w --scope work)|./w.py`,
		"# only a remark\nebb fetch report votes # and another": `ebb|fetch|report|votes`,
	} {
		var got []string
		for _, c := range simple(text) {
			got = append(got, strings.Join(c, "|"))
		}
		if joined := strings.Join(got, " / "); joined != want {
			t.Errorf("%s\n got %s\nwant %s", text, joined, want)
		}
	}
}

func TestBlocks(t *testing.T) {
	page := "Prose.\n\n    $ ebb demo\n    fine\n\n```yaml\na: 1\n```\nMore.\n\n    headers: none\n"
	found, prose := blocks("p.md", page)
	if len(found) != 3 || prose != "Prose.\n\n\nMore.\n\n\n" {
		t.Fatalf("%+v\n%q", found, prose)
	}
	if !found[0].shell() || found[1].shell() || found[2].shell() {
		t.Error("which is for a shell?")
	}
	if c := found[0].commands(); len(c) != 1 || c[0].text != "ebb demo" || !c[0].asked || c[0].from != 3 || !slices.Equal(c[0].answer, []string{"fine"}) {
		t.Errorf("%+v", c)
	}
}
