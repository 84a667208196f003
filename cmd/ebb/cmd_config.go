package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/access"
	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/policy/file"
)

func (a *app) configCommand() *cobra.Command {
	c := group("config", "The configuration: check",
		`A flag is stronger than a variable of the environment, which is stronger than
the configuration file, ebb.yaml unless --config or EBB_CONFIG names another.`)
	c.AddCommand(a.configCheckCommand())
	return c
}

// configValue is one setting in force and who set it.
type configValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// configFinding is the answer of one check.
type configFinding struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Words string `json:"words"`
	Try   string `json:"try,omitempty"`
}

func (a *app) configCheckCommand() *cobra.Command {
	var offline bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Tell what would be used, from where, and whether it works",
		Long: `Tell which settings are in force and who set each (flag, environment, file and
line, or default), then check them as ebb serve would: the configuration file
strictly, the policies with lint, the key file, and that the database answers and
has the right schema. Nothing is made or changed. Secrets are not printed.

Exit codes: 0 all is well; 1 a check failed; 2 a file that cannot be read or has
a key that does not exist.`,
		Example: `  ebb config check
  ebb config check --config /etc/ebb/ebb.yaml --json
  ebb config check --offline`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return a.configCheck(c.Context(), offline) },
	}
	c.Flags().BoolVar(&offline, "offline", false, "do not ask the database")
	a.keyFlag(c)
	return c
}

func (a *app) configCheck(ctx context.Context, offline bool) error {
	values, err := a.inForce()
	if err != nil {
		return err
	}
	findings, err := a.configFindings(ctx, offline)
	if err != nil {
		return err
	}
	ok := true
	for _, f := range findings {
		ok = ok && f.OK
	}
	if a.json {
		err = a.printJSON(map[string]any{"ok": ok, "settings": values, "checks": findings})
	} else {
		err = a.printConfig(values, findings)
	}
	if err != nil {
		return err
	}
	if !ok {
		return no(errors.New("config: a check failed"))
	}
	return nil
}

func (a *app) printConfig(values []configValue, findings []configFinding) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tFROM")
	for _, v := range values {
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Name, cell(v.Value), v.From)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	for _, f := range findings {
		label := a.paint(green, "ok")
		if !f.OK {
			label = a.paint(red, "failed")
		}
		fmt.Fprintf(a.stdout, "%s: %s: %s\n", label, f.Name, f.Words)
		if f.Try != "" {
			fmt.Fprintf(a.stdout, "    Try: %s\n", f.Try)
		}
	}
	return nil
}

// private are the keys whose values are not shown.
var private = regexp.MustCompile(`(?i)secret|password|token|passphrase|credential`)

// inForce lists the settings that count, each with who set it.
func (a *app) inForce() ([]configValue, error) {
	s, placed, err := a.configured()
	if err != nil {
		return nil, err
	}
	path, from := a.configPath()
	if _, err := os.Stat(path); err != nil {
		path, from = "none", "there is no "+defaultConfig+" here"
	} else if from == "" {
		from = "found here"
	}
	inFile := map[string]string{}
	for _, p := range placed {
		inFile[p.key] = fmt.Sprintf("%s:%d", path, p.line)
	}
	db, err := a.database()
	if err != nil {
		return nil, err
	}
	_, dbFrom, err := a.databaseURL()
	if err != nil {
		return nil, err
	}
	key, keyFrom, err := a.keyPath(&db)
	if err != nil {
		return nil, err
	}
	place := func(value, from, name, none string) configValue {
		if at, ok := inFile[name]; ok && (from == name+" of the configuration" || from == "") {
			from = at
		}
		if value == "" {
			value, from = none, "default"
		}
		return configValue{name, value, from}
	}
	list := []configValue{
		{"config", path, from},
		place(db.shown, dbFrom, "db", ""),
		place(s.Policies, "", "policies", "the presets"),
		place(key, keyFrom, "key_file", "none"),
	}
	for _, p := range placed {
		if p.key == "db" || p.key == "policies" || p.key == "key_file" || p.key == "" {
			continue
		}
		if private.MatchString(p.key) {
			p.text = "(not shown)"
		}
		list = append(list, configValue{p.key, p.text, inFile[p.key]})
	}
	return append(list, a.variables()...), nil
}

// variables lists what the environment sets beyond the file's keys.
func (a *app) variables() []configValue {
	var list []configValue
	add := func(name string, secret bool) {
		value, ok := a.lookup(name)
		if !ok || value == "" {
			return
		}
		if secret {
			value = "(not shown)"
		}
		list = append(list, configValue{name, value, "environment"})
	}
	add("EBB_URL", false)
	add("EBB_TOKEN", true)
	for _, v := range file.Variables() {
		add(v.Name, false)
	}
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_TRACES_SAMPLER"} {
		add(name, false)
	}
	return list
}

// configFindings checks what a server would need at its start.
func (a *app) configFindings(ctx context.Context, offline bool) ([]configFinding, error) {
	policies, err := a.checkPolicies()
	if err != nil {
		return nil, err
	}
	db, err := a.database()
	if err != nil {
		return nil, err
	}
	key, err := a.checkKey(&db)
	if err != nil {
		return nil, err
	}
	list := []configFinding{policies, key}
	if !offline {
		list = append(list, a.checkDatabase(ctx, &db))
	}
	return list, interrupted(ctx, ctx.Err())
}

func (a *app) checkPolicies() (configFinding, error) {
	entries, err := a.allPolicies()
	if err != nil {
		return configFinding{}, err
	}
	var findings []policy.Finding
	for i := range entries {
		if entries[i], err = a.effective(entries[i]); err != nil {
			return configFinding{}, err
		}
		findings = append(findings, a.lintEntry(&entries[i])...)
	}
	f := configFinding{Name: "policies", OK: !policy.Failed(findings), Words: fmt.Sprintf("%d, %s", len(entries), verdict(findings))}
	for _, found := range findings {
		if found.Fails() {
			f.Words += fmt.Sprintf("; %s %s: %s", found.Policy, found.Field, found.Measured)
			f.Try = found.Fix + "; ebb policy lint tells all"
			break
		}
	}
	return f, nil
}

func (a *app) checkKey(db *database) (configFinding, error) {
	path, _, err := a.keyPath(db)
	if err != nil {
		return configFinding{}, err
	}
	f := configFinding{Name: "key file", OK: true, Words: path + ": can be used"}
	switch _, err := os.Stat(path); {
	case path == "":
		f.Words = "none: what has a secret, such as a webhook's endpoint, cannot be kept"
		f.Try = "--key-file FILE, the same for every server of the database"
		return f, nil
	case errors.Is(err, fs.ErrNotExist):
		f.Words = path + ": will be made at the first start"
		return f, nil
	}
	if _, err := access.KeyFile(path); err != nil {
		f.OK, f.Words = false, err.Error()
	}
	return f, nil
}

func (a *app) checkDatabase(ctx context.Context, db *database) configFinding {
	f := configFinding{Name: "database", OK: true}
	if db.missing() {
		f.Words = db.shown + ": will be made at the first start"
		return f
	}
	steps, err := db.migrate(ctx, status)
	if err != nil {
		var known *failed
		errors.As(db.unreachable(err), &known)
		return configFinding{Name: "database", Words: known.Error(), Try: known.try}
	}
	done := 0
	for _, s := range steps {
		if !s.AppliedAt.IsZero() {
			done++
		}
	}
	f.Words = fmt.Sprintf("%s: answers, schema %d of %d", db.shown, done, len(steps))
	if done > 0 && done < len(steps) && db.path == "" { // SQLite is moved when it is opened
		f.OK, f.Try = false, "ebb migrate up"
	}
	return f
}
