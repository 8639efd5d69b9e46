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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.checkOutput(); err != nil {
				return err
			}
			a, _, err := r.open() // without a secret, so that a cloud token needs no namespace
			if err != nil {
				return err
			}
			c, err := usable(client.New(a.endpoint, ""))
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			probe := c.Health
			if ready {
				probe = c.Ready
			}
			h, err := probe(ctx)
			if err != nil {
				return err
			}
			return tell(r, cmd, h, showHealth)
		},
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
