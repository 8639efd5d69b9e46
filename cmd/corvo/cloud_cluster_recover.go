package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// recoverCluster makes the command that refounds the groups of a namespace from one copy.
func recoverCluster(r *remote) *cobra.Command {
	var request api.RecoverClusterRequest
	cmd := onCloud(r, "recover ID", "Recover a namespace that has lost its quorum", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.RecoverCluster, error) {
		var f misuse.Faults
		f.Refuse(request.From != "", "--from is missing: name the host whose copy is kept; corvo cloud clusters show %s says which copy is the furthest", args[0])
		f.Refuse(request.AcceptLoss, "--accept-loss is missing: acknowledged writes that the copy lacks are lost")
		if err := f.Err(); err != nil {
			return api.RecoverCluster{}, err
		}
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

// copies returns the end of each member's copy, and says which copy is the furthest, because an operator recovers from that
// one.
func copies(c api.CloudCluster) string {
	words := make([]string, len(c.Status.Members))
	for i, m := range c.Status.Members {
		words[i] = cmp.Or(m.HostName, m.Host) + ": not reported"
		if len(m.Last) > 0 {
			words[i] = fmt.Sprintf("%s: %s%s", cmp.Or(m.HostName, m.Host), positions(m.Last), furthest(m.Last, c.Status.Members))
		}
	}
	return strings.Join(words, ", ")
}

// furthest returns a remark on a copy if no member's copy is ahead of it, in all shards or in some.
func furthest(last []api.ClusterPosition, members []api.CloudClusterMember) string {
	var shards []string
	for at, p := range last {
		ahead := func(m api.CloudClusterMember) bool {
			return at < len(m.Last) && cmp.Or(cmp.Compare(m.Last[at].Term, p.Term), cmp.Compare(m.Last[at].Index, p.Index)) > 0
		}
		if !slices.ContainsFunc(members, ahead) {
			shards = append(shards, fmt.Sprint(p.Shard))
		}
	}
	switch len(shards) {
	case 0:
		return ""
	case len(last):
		return " (furthest)"
	}
	return fmt.Sprintf(" (furthest in shard %s)", strings.Join(shards, " and "))
}
