// Command corvo is the data plane's one binary: the node (`corvo server`) and
// the command line for it.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/internal/help"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
)

// The linker sets version for releases.
var version = "dev"

func main() {
	if cmd, err := newRoot().ExecuteC(); err != nil {
		fmt.Fprintln(os.Stderr, "corvo:", advice(err)+withoutSecret(cmd, err))
		os.Exit(exitCode(err))
	}
}

func newRoot() *cobra.Command {
	root := group(&cobra.Command{
		Use:           "corvo",
		Short:         "Run and use Corvo, a job queue for background and AI-agent work",
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.AddGroup(
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "rules", Title: "Rules, budgets and alerts:"},
		&cobra.Group{ID: "node", Title: "Nodes and access:"},
		&cobra.Group{ID: "people", Title: "Cloud and profiles:"},
	)
	for id, commands := range map[string][]*cobra.Command{
		"jobs":   append(append(jobCommands(), queueCommands()...), newEnqueue(), newSchedules(), newEvents()),
		"rules":  {newBudget(), newLimits(), newProviders(), newPrices(), newUsage(), newApprovalPolicy(), newAlerts(), newWebhooks(), newSettings()},
		"node":   {newServer(), newHealth(), newStatus(), newTop(), newWorkers(), newCluster(), newKeys(), newRoles(), newAdmin(), newBench()},
		"people": {newLogin(), newCloud(), newProfiles()},
	} {
		for _, cmd := range commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersion())
	complete(root)
	root.InitDefaultHelpCmd()
	help.Examples(root, examples)
	help.Wrap(root, help.Width(os.Stdout))
	misuse.Version(root, version)
	misuse.Strict(root)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		settings.WarnUnknown(root, os.Environ(), cmd.Name() != "server", func(message string) {
			fmt.Fprintln(cmd.ErrOrStderr(), "corvo: warning:", message)
		})
	}
	return root
}

func newVersion() *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.checkOutput(); err != nil {
				return err
			}
			return tell(r, cmd, map[string]string{"version": version}, func(w io.Writer, v map[string]string) { fmt.Fprintln(w, v["version"]) })
		},
	}
	r.bindOutput(cmd)
	return cmd
}
