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
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "corvo",
		Short:         "A job queue for background and AI-agent work",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newServer(), newSchedules(), newCluster(), newAdmin(), newVersion())
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
