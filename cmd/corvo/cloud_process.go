package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudProcesses makes the commands about the processes of the control plane.
func cloudProcesses(r *remote) *cobra.Command {
	columns := []column[api.Process]{
		{"PROCESS", func(p api.Process) string { return p.ID }},
		{"ROLE", func(p api.Process) string { return p.Role }},
		{"LAG", func(p api.Process) string { return fmt.Sprint(p.Lag) }},
		{"LAST CONTACT", func(p api.Process) string {
			if p.LastContactMs < 0 {
				return ""
			}
			return fmt.Sprintf("%d ms", p.LastContactMs)
		}},
		{"VERSION", func(p api.Process) string { return p.Version }},
		{"LEVEL", func(p api.Process) string {
			if p.Level == 0 {
				return ""
			}
			return fmt.Sprint(p.Level)
		}},
		{"ADDRESS", func(p api.Process) string { return p.Address }},
		{"URL", func(p api.Process) string { return p.URL }},
	}
	return below("processes", "Manage the processes of the control plane (operators only)",
		onCloud(r, "list", "List the processes of the control plane", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) ([]api.Process, error) {
			return c.Processes(cmd.Context())
		}, func(w io.Writer, all []api.Process) { showList(w, all, columns) }),
		onCloud(r, "remove ID", "Remove a process of the control plane for ever", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Status, error) {
			return done("removed"), c.RemoveProcess(cmd.Context(), args[0])
		}, showStatus),
	)
}
