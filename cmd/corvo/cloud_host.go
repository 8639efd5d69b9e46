package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudHosts makes the commands about hosts and gateways.
func cloudHosts(r *remote) *cobra.Command {
	columns := []column[api.Host]{
		{"HOST", func(h api.Host) string { return h.Name }},
		{"ID", func(h api.Host) string { return h.ID }},
		{"KIND", func(h api.Host) string { return h.Spec.Kind }},
		{"REGION", func(h api.Host) string { return h.Spec.Region }},
		{"NAMESPACES", func(h api.Host) string { return count(h.Status.Namespaces) }},
		{"VERSION", func(h api.Host) string { return h.Status.Version }},
		{"ADDRESS", func(h api.Host) string { return h.Status.Address }},
		{"STORE", func(h api.Host) string { return h.Status.Store }},
		{"STATE", storeState},
		{"OPEN CELLS", func(h api.Host) string {
			return maybe(h.Status.Capacity, func(c api.HostCapacity) string { return fmt.Sprintf("%d of %d", c.OpenCells, c.MaxCells) })
		}},
		{"DISK FREE", diskFree},
		{"FULL", func(h api.Host) string { return h.Status.Full }},
		{"LAST SEEN", func(h api.Host) string { return maybe(h.Status.LastSeenAt, clock) }},
	}
	return below("hosts", "Manage hosts and gateways (operators only)",
		onCloud(r, "list", "List hosts and gateways", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) ([]api.Host, error) {
			return c.Hosts(cmd.Context())
		}, func(w io.Writer, all []api.Host) { showList(w, all, columns) }),
		alias("get", onCloud(r, "show HOST", "Show a host or gateway", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Host, error) {
			return c.Host(cmd.Context(), args[0])
		}, func(w io.Writer, h api.Host) { showOne(w, h, columns...) })),
		createHost(r),
		onCloud(r, "remove HOST", "Remove a host or gateway for ever", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("removed"), c.RemoveHost(cmd.Context(), args[0], 0)
		}, showStatus),
	)
}

// diskFree returns the free and the whole space of a host's disk.
func diskFree(h api.Host) string {
	if h.Status.Capacity == nil || h.Status.Capacity.DiskTotalBytes == 0 {
		return ""
	}
	const gib = 1 << 30
	return fmt.Sprintf("%.1f of %.1f GiB", float64(h.Status.Capacity.DiskFreeBytes)/gib, float64(h.Status.Capacity.DiskTotalBytes)/gib)
}

// storeState returns the state of a host's store, and the number of namespaces whose data is on a lost one.
func storeState(h api.Host) string {
	if h.Status.LostNamespaces == 0 {
		return h.Status.StoreState
	}
	return fmt.Sprintf("%s, %d lost", h.Status.StoreState, h.Status.LostNamespaces)
}

func createHost(r *remote) *cobra.Command {
	var made edits[api.CreateHostRequest]
	cmd := issuing(r, "create NAME", "Register a host or gateway and print its credential", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.CreatedHost, error) {
		req := api.CreateHostRequest{Name: args[0]}
		made.apply(&req)
		return c.CreateHost(cmd.Context(), req)
	}, func(h *api.CreatedHost) *string { return &h.Credential }, column[api.CreatedHost]{"ID", func(h api.CreatedHost) string { return h.ID }},
		column[api.CreatedHost]{"FLEET ROOT", func(h api.CreatedHost) string { return h.FleetRoot }})
	made.bind(cmd,
		set("kind", "kind of machine: host or gateway (default host)", words, func(r *api.CreateHostRequest) *string { return &r.Kind }),
		set("region", "region of the machine", words, func(r *api.CreateHostRequest) *string { return &r.Region }),
	)
	return cmd
}
