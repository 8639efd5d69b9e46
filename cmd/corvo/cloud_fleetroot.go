package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudFleetRoots makes the commands about the roots of the fleet's certificates.
func cloudFleetRoots(r *remote) *cobra.Command {
	columns := []column[api.FleetRoot]{
		{"FLEET ROOT", func(f api.FleetRoot) string { return f.Fingerprint }},
		{"STATE", func(f api.FleetRoot) string { return f.State }},
		{"CREATED", func(f api.FleetRoot) string { return clock(f.CreatedAt) }},
		{"ANNOUNCED UNTIL", func(f api.FleetRoot) string { return maybe(f.AnnouncedUntil, clock) }},
		{"SIGNS SINCE", func(f api.FleetRoot) string { return maybe(f.SignsAt, clock) }},
		{"WAITS FOR", func(f api.FleetRoot) string { return strings.Join(f.WaitsFor, ", ") }},
	}
	var made edits[api.RotateFleetRootRequest]
	rotate := onCloud(r, "rotate", "Start the rotation of the fleet's root", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) (api.FleetRoot, error) {
		var req api.RotateFleetRootRequest
		made.apply(&req)
		return c.RotateFleetRoot(cmd.Context(), req)
	}, func(w io.Writer, f api.FleetRoot) { showOne(w, f, columns...) })
	rotate.Long = "Start the rotation of the fleet's root. Give programs that verify the control plane by a file the new fleet-root.pem before\n" +
		"the announcement ends. The rotation then goes on by itself: corvo cloud fleet-roots list shows its state."
	made.bind(rotate, set("announce", "least time until the new root signs; 0s = none (default 24h)", span, func(r *api.RotateFleetRootRequest) *api.Duration { return &r.Announce }))
	var without []string
	sign := onCloud(r, "switch FINGERPRINT", "Let an announced root sign now", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
		return done(api.RootSigning), c.SwitchFleetRoot(cmd.Context(), args[0], without...)
	}, showStatus)
	sign.Long = "Let an announced root sign now. Name each host and gateway that does not trust the root yet: it cannot reach the\n" +
		"control plane until somebody gives it the root."
	sign.Flags().StringSliceVar(&without, "without", nil, "`names` or ids of hosts and gateways that need not trust the root")
	return below("fleet-roots", "Manage the roots of the fleet's certificates (operators only)",
		onCloud(r, "list", "List the roots of the fleet's certificates", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) ([]api.FleetRoot, error) {
			return c.FleetRoots(cmd.Context())
		}, func(w io.Writer, all []api.FleetRoot) { showList(w, all, columns) }),
		rotate, sign,
		onCloud(r, "retire FINGERPRINT", "Retire a root that is in no use", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("retired"), c.RetireFleetRoot(cmd.Context(), args[0])
		}, showStatus),
	)
}
