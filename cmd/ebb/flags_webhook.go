package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/policy/file"
)

// webhookFlags are the variables of seed 002 as flags, which are stronger.
func (a *app) webhookFlags(c *cobra.Command) {
	names := map[string]string{
		"WEBHOOK_TIMEOUT_SECONDS": "webhook-timeout-seconds",
		"MAX_RETRY_ATTEMPTS":      "webhook-max-retries",
		"RETRY_BATCH_SIZE":        "webhook-batch-size",
		"HTTP_POOL_SIZE":          "webhook-pool-size",
	}
	for _, v := range file.Variables() {
		c.Flags().String(names[v.Name], "", fmt.Sprintf("%s (policy webhook: %s); stronger than %s", v.Doc, v.Path, v.Name))
	}
	environment := a.lookup
	a.lookup = func(name string) (string, bool) {
		if flag := c.Flags().Lookup(names[name]); flag != nil && flag.Changed {
			return flag.Value.String(), true
		}
		return environment(name)
	}
}
