package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// healthTimeout bounds a probe. It is shorter than the usual timeout of an orchestrator, so that the
// orchestrator receives the reason.
const healthTimeout = 5 * time.Second

// newHealth makes a probe for places without another program to probe with, such as the container image. It
// exits with 0 or 1 and needs no key.
func newHealth() *cobra.Command {
	r := &remote{}
	var ready bool
	cmd := &cobra.Command{
		Use: "health", Short: "Check the health of a node, without a key", Args: cobra.NoArgs,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) (api.Health, error) {
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			if ready {
				return c.Ready(ctx)
			}
			return c.Health(ctx)
		}, showHealth),
	}
	r.bind(cmd)
	cmd.Flags().BoolVar(&ready, "ready", false, "check whether the node can serve requests, not only whether it runs")
	return cmd
}

func showHealth(w io.Writer, h api.Health) {
	for _, name := range slices.Sorted(maps.Keys(h.Checks)) {
		fmt.Fprintf(w, "%s\t%s\n", name, h.Checks[name])
	}
	fmt.Fprintln(w, h.Status)
}
