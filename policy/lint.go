package policy

// RuleIDs lists the lint rules by their stable ids.
func RuleIDs() []string {
	return []string{
		"floor", "jitter", "growth", "window", "unbounded", "timeout", "lease", "metastable",
		"budget", "taxonomy", "unsafe", "catch-up", "risky-diff",
	}
}
