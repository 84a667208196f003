package main

import (
	"github.com/spf13/cobra"

	"github.com/ebbhq/ebb/demo"
)

func (a *app) demoCommand() *cobra.Command {
	o := demo.Options{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See the seeds' incidents at work on this machine",
		Long: `Run real servers on loopback that fail the way the seeds' systems failed, and
the real policies against them, with policy time running faster. Nothing leaves
this machine; nothing is left behind.`,
		Example: "  ebb demo\n  ebb demo --speed 120",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			o.Out = a.stdout
			if err := demo.Run(c.Context(), o); err != nil {
				return &failed{code: exitNo, err: err}
			}
			return nil
		},
	}
	c.Flags().Float64Var(&o.Speed, "speed", 60, "how much faster policy time runs")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of the random delays")
	return c
}
