package report

import (
	"fmt"
	"os"
	"strings"
)

// Section replaces what stands between the markers of a name in a file:
//
//	<!-- bench:NAME -->
//	…
//	<!-- /bench:NAME -->
//
// A file without them is an error: where a result belongs is a person's choice.
func Section(path, name, text string) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	out, err := replaceSection(string(file), name, text)
	if err != nil {
		return fmt.Errorf("report: %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(out), 0o644)
}

func replaceSection(file, name, text string) (string, error) {
	begin, end := "<!-- bench:"+name+" -->", "<!-- /bench:"+name+" -->"
	before, rest, ok := strings.Cut(file, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("no section %s; put %s and %s where the result belongs", name, begin, end)
	}
	return before + begin + "\n\n" + strings.TrimSpace(text) + "\n\n" + end + after, nil
}
