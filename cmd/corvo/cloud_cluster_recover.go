package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// recoverCluster makes the command that refounds the groups of a namespace from one copy.
func recoverCluster(r *remote) *cobra.Command {
	var request api.RecoverClusterRequest
	cmd := onCloud(r, "recover ID", "Recover a namespace that has lost its quorum", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.RecoverCluster, error) {
		return c.RecoverCluster(cmd.Context(), args[0], request)
	}, showRecovery)
	cmd.Long = "Recover a namespace of which most copies are lost. The copy on one host becomes the whole namespace, and all other copies\n" +
		"are given up: acknowledged writes that the copy lacks are lost. The control plane adds members again afterwards."
	cmd.Flags().StringVar(&request.From, "from", "", "`host` whose copy is kept, by id or name")
	cmd.Flags().BoolVar(&request.AcceptLoss, "accept-loss", false, "accept that writes are lost")
	cmd.Flags().BoolVar(&request.AcceptOlder, "accept-older", false, "keep this copy although another one is further")
	return cmd
}

// showRecovery prints what a recovery keeps and what may be lost.
func showRecovery(w io.Writer, a api.RecoverCluster) {
	fmt.Fprintln(w, a.Status)
	if len(a.Kept) > 0 {
		fmt.Fprintf(w, "kept: %s on %s, to entry %s of the log\n", a.Store, a.Host, positions(a.Kept))
	}
	for _, m := range a.GivenUp {
		fmt.Fprintf(w, "given up: %s on %s, last reported at entry %s; later acknowledged writes are lost\n", m.Store, cmp.Or(m.HostName, m.Host), positions(m.Last))
	}
}

// positions returns the ends of a copy by shard, as index and term.
func positions(all []api.ClusterPosition) string {
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = fmt.Sprintf("%d (term %d)", p.Index, p.Term)
	}
	return known(strings.Join(words, " / "))
}
