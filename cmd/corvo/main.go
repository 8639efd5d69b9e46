// Command corvo is the data plane's one binary: the node (`corvo server`) and
// the command line for it.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// version is set by the linker for releases.
var version = "dev"

func main() {
	if err := newRoot().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "corvo:", oneLine(err))
		os.Exit(exitCode(err))
	}
}

func newRoot() *cobra.Command {
	root := group(&cobra.Command{
		Use:           "corvo",
		Short:         "A job queue for background and AI-agent work",
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.AddGroup(
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "rules", Title: "Agents, money and limits:"},
		&cobra.Group{ID: "node", Title: "Nodes:"},
	)
	for id, commands := range map[string][]*cobra.Command{
		"jobs":  append(jobCommands(), newSchedules(), newEvents()),
		"rules": {newBudget(), newLimits(), newProviders(), newPrices(), newUsage(), newApprovalPolicy(), newAlerts(), newWebhooks(), newSettings()},
		"node":  {newServer(), newCluster(), newAdmin()},
	} {
		for _, cmd := range commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersion())
	strict(root)
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		},
	}
}
