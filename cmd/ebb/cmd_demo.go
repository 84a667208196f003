package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/demo"
)

func (a *app) demoCommand() *cobra.Command {
	o := demo.Options{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See the seeds' incidents at work on this machine",
		Long: `Run the incidents of the four seeds at once: a fragile site with an outage, a
provider that browns out, webhook receivers of which one is dead, and a real
wget crawl that stalls. Real servers on loopback, the real engine and policies,
with policy time running faster, live in the console; beside them the same
incidents under the policies that caused them.

It takes about a minute, ends with a table, and leaves nothing behind. On a
terminal the console stays open until Ctrl-C. At 60 times the speed a timeout of
30 s is half a second: policy time goes slower while the machine cannot keep up,
so that a busy one takes longer.`,
		Example: "  ebb demo\n  ebb demo --speed 120\n  ebb demo --part pages",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			o.Out, o.Live = a.stdout, isTerminal(a.stdout)
			if self, err := os.Executable(); err == nil {
				o.Self = []string{self, "supervise-child"}
			}
			if err := demo.Run(c.Context(), o); err != nil {
				return interrupted(c.Context(), &failed{code: exitNo, err: err})
			}
			return nil // also when Ctrl-C has closed the console of one that is over
		},
	}
	c.Flags().Float64Var(&o.Speed, "speed", 60, "how much faster policy time runs")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of the random delays")
	c.Flags().StringSliceVar(&o.Parts, "part", nil, "only these: pages, documents, webhooks, crawl")
	return c
}
