package main

import (
	"fmt"
	"io"
	"time"

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
		{"ZONE", func(h api.Host) string { return h.Spec.Zone }},
		{"NAMESPACES", func(h api.Host) string { return count(h.Status.Namespaces) }},
		{"VERSION", func(h api.Host) string { return h.Status.Version }},
		{"ADDRESS", func(h api.Host) string { return h.Status.Address }},
		{"STORE", func(h api.Host) string { return h.Status.Store }},
		{"STATE", storeState},
		{"OPEN CELLS", func(h api.Host) string {
			return maybe(h.Status.Capacity, func(c api.HostCapacity) string { return fmt.Sprintf("%d of %d", c.OpenCells, c.MaxCells) })
		}},
		{"DISK FREE", diskFree},
		{"DRAINS", hostDrain},
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
		createHost(r), drainHost(r),
		onCloud(r, "undrain HOST", "Let a drained host have namespaces again", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("undrained"), c.UndrainHost(cmd.Context(), args[0])
		}, showStatus),
		onCloud(r, "remove HOST", "Remove a host or gateway for ever", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("removed"), c.RemoveHost(cmd.Context(), args[0], 0)
		}, showStatus),
	)
}

// hostDrain returns since when a host drains, and who drains it.
func hostDrain(h api.Host) string {
	return maybe(h.Status.Drain, func(d api.HostDrain) string { return fmt.Sprintf("since %s by %s", clock(d.At), d.By) })
}

// drainHost makes the command that empties a host.
func drainHost(r *remote) *cobra.Command {
	var wait waitFlags
	cmd := onCloud(r, "drain HOST", "Move all namespaces away from a host", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
		if err := wait.check(); err != nil {
			return api.Status{}, err
		}
		status, err := c.DrainHost(cmd.Context(), args[0])
		if err == nil && wait.wait && status == api.HostDraining {
			err = awaitDrained(cmd, c, args[0], wait.most)
			status = api.HostDrained
		}
		return done(status), err
	}, showStatus)
	cmd.Long = "Move all namespaces away from a host. The host gets none until corvo cloud hosts undrain. The exit code with --wait\n" +
		"is 0 when no namespace is left, and 3 when --timeout is over first. The drain goes on in any case."
	wait.bind(cmd, "wait until no namespace is left")
	return cmd
}

// awaitDrained waits until a host has no namespaces, and shows on a terminal how many are left. most bounds the wait;
// 0 = no bound.
func awaitDrained(cmd *cobra.Command, c *client.Cloud, host string, most time.Duration) error {
	first, left := 0, 0
	return poll(cmd, most, func(p *progress) (bool, error) {
		h, err := c.Host(cmd.Context(), host)
		if err == nil && h.Status.Drain == nil {
			err = fmt.Errorf("host %s drains no more: another client has undrained it", host)
		}
		left = h.Status.Namespaces
		first = max(first, left)
		p.show(uint64(first-left), uint64(first), fmt.Sprintf("namespaces left on %s: %d of %d", host, left, first))
		return left == 0, err
	}, func() string {
		return fmt.Sprintf("after %v namespaces left on %s: %d; the drain goes on, and corvo cloud clusters says what each waits for", most, host, left)
	})
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
		set("zone", "zone of a host, such as its rack; replicas are spread over zones (default its id)", words, func(r *api.CreateHostRequest) *string { return &r.Zone }),
	)
	return cmd
}
