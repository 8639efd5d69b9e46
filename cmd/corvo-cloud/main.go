// Command corvo-cloud is the cloud: `dev` runs all of it in one process, and
// server, gateway and host are the same parts on machines of their own. `admin` is for
// operators.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/help"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
)

// The linker sets version for releases.
var version = "dev"

func main() {
	if err := newRoot().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "corvo-cloud:", err)
		os.Exit(exitCode(err))
	}
}

// exitCode returns the exit code of a failed command.
func exitCode(err error) int {
	if misuse.Is(err) {
		return misuse.ExitCode
	}
	return 1
}

func newRoot() *cobra.Command {
	root := misuse.Group(&cobra.Command{
		Use:           "corvo-cloud",
		Short:         "Run the Corvo cloud: control plane, gateway and hosts",
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.AddCommand(newDev(), newServer(), newGateway(), newHost(), newAdmin(), newVersion())
	misuse.Completion(root)
	root.InitDefaultHelpCmd()
	help.Examples(root, examples)
	help.Wrap(root, help.Width(os.Stdout))
	misuse.Version(root, version)
	misuse.Strict(root)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		settings.WarnUnknown(root, os.Environ(), false, func(message string) {
			fmt.Fprintln(cmd.ErrOrStderr(), "corvo-cloud: warning:", message)
		})
	}
	return root
}

// process holds the settings of all long-running commands.
type process struct {
	Config          string        `flag:"config" doc:"file with settings, one 'flag-name: value' a line (YAML)"`
	OTelEndpoint    string        `flag:"otel-endpoint" doc:"URL of an OTLP/HTTP receiver for traces, such as http://127.0.0.1:4318 (default none)"`
	LogLevel        string        `flag:"log-level" default:"info" doc:"lowest level of log lines: debug, info, warn or error"`
	ShutdownTimeout time.Duration `flag:"shutdown-timeout" default:"30s" doc:"time for requests in progress to finish at shutdown"`
}

func (p *process) check(f *misuse.Faults) {
	f.Refuse(p.ShutdownTimeout > 0, "--shutdown-timeout is %v; it must be positive", p.ShutdownTimeout)
	_, err := settings.Logger(p.LogLevel)
	f.Refuse(err == nil, "%v", err)
}

// command makes a command that runs until a signal stops it. cfg holds its settings and checks them; file
// points to the setting that names the configuration file.
func command(use, short string, cfg interface{ check(f *misuse.Faults) }, file *string, run func(ctx context.Context, cmd *cobra.Command) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: short + ".\n\n" + settings.Help, Args: cobra.NoArgs}
	settings.Bind(cmd.Flags(), cfg)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings.Fill(cmd.Flags(), os.LookupEnv, *file); err != nil {
			return misuse.Of(err)
		}
		var f misuse.Faults
		if cfg.check(&f); len(f) > 0 {
			return f.Err()
		}
		front.TuneGC()
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return run(ctx, cmd)
	}
	return cmd
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
