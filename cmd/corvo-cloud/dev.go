package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/billing/stripe/stripefake"
	"github.com/corvo/corvo/cmd/internal/allinone"
	"github.com/corvo/corvo/cmd/internal/datadir"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/durable"
)

// devConfig is the configuration of `corvo-cloud dev`.
type devConfig struct {
	process
	settings.View
	Bind    string `flag:"bind" default:"127.0.0.1:8080" doc:"address of the cloud API and the gateway"`
	DataDir string `flag:"data-dir" default:"cloud-data" doc:"directory for all data"`
	Hosts   int64  `flag:"hosts" default:"1" doc:"number of hosts; more than one are processes of their own"`

	StripeFake bool `flag:"stripe-fake" doc:"run a fake of Stripe beside the cloud, which charges nobody and forgets everything"`
}

func newDev() *cobra.Command {
	var cfg devConfig
	cmd := command("dev", "Run a whole cloud for development", &cfg, &cfg.Config,
		func(ctx context.Context, cmd *cobra.Command) error { return cfg.run(ctx, cmd.OutOrStdout()) })
	settings.Default(cmd.Flags(), "log-level", "warn") // on the terminal; the file gets the whole log
	return cmd
}

func (cfg *devConfig) check(f *misuse.Faults) {
	cfg.process.check(f)
	cfg.View.Check(f.Refuse)
	checkBind(f, "--bind", cfg.Bind)
	f.Refuse(front.Loopback(cfg.Bind), "--bind is %q; it must be a loopback address such as 127.0.0.1:8080, because a development cloud serves plain HTTP and keeps its secrets in files", cfg.Bind)
	f.Refuse(cfg.DataDir != "", "--data-dir is empty")
	f.Refuse(cfg.Hosts >= 1 && cfg.Hosts <= allinone.MaxHosts, "--hosts is %d; it must be 1 to %d", cfg.Hosts, allinone.MaxHosts)
}

func (cfg *devConfig) run(ctx context.Context, out io.Writer) (err error) {
	if err := datadir.Check(cfg.DataDir, datadir.DevCloud); err != nil {
		return err
	}
	if err := allinone.CheckHosts(cfg.DataDir, int(cfg.Hosts)); err != nil {
		return misuse.Of(err)
	}
	if err := durable.MakeDir(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	file, err := cfg.openLog(cloudLog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := cfg.begin(ctx, "corvo-cloud", "dev", file)
	if err != nil {
		return err
	}
	listener, err := listen(cfg.Bind)
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	cloud, err := allinone.Open(ctx, allinone.Config{
		DataDir:         cfg.DataDir,
		Listener:        listener,
		Version:         version,
		Hosts:           int(cfg.Hosts),
		HostCommand:     cfg.hostCommand,
		HostLog:         func(host string) (io.WriteCloser, error) { return cfg.openLog(host) },
		FeedBytes:       uint64(cfg.MaxFeedBytes),
		ViewLagLimit:    cfg.ViewLagLimit,
		ShutdownTimeout: cfg.ShutdownTimeout,
		Tracer:          r.tracer(),
		Logger:          r.log,
	})
	if err != nil {
		return cfg.end(ctx, r, r.unopened(ctx, "cloud", err))
	}
	var fake fakeStripe
	if cfg.StripeFake {
		if err := fake.start(ctx); err != nil {
			return cfg.end(ctx, r, err, cloud.Close)
		}
	}
	cfg.greet(out, cloud, fake.url)
	return cfg.end(ctx, r, cloud.Wait(ctx), fake.close, cloud.Close)
}

// openLog opens the log of a part, which has the part's name below the data directory.
func (cfg *devConfig) openLog(name string) (*rotating, error) {
	path := cfg.logPath(name)
	return openLog(path, path+".1", maxLogBytes)
}

func (cfg *devConfig) logPath(name string) string { return filepath.Join(cfg.DataDir, name+".log") }

// hostCommand makes the command that runs a host by this binary. The host gets the settings of this process by flags
// and not by the environment, because a variable such as CORVO_BIND is meant for this process.
func (cfg *devConfig) hostCommand(ctx context.Context, flags ...string) *exec.Cmd {
	binary, err := os.Executable()
	flags = append([]string{"host"}, flags...)
	if cfg.OTelEndpoint != "" {
		flags = append(flags, "--otel-endpoint", cfg.OTelEndpoint)
	}
	cmd := exec.CommandContext(ctx, binary, flags...)
	cmd.Err = cmp.Or(cmd.Err, err)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, settings.Prefix) })
	return cmd
}

// greet prints the key and a command line that works when pasted, then the addresses of the cloud and the
// paths of its files.
func (cfg *devConfig) greet(out io.Writer, cloud *allinone.Cloud, stripeURL string) {
	fmt.Fprintf(out, "API key of namespace demo: %s\n", cloud.Access.APIKey)
	fmt.Fprintf(out, "try: curl -s %s/api/v1/enqueue -H 'Authorization: Bearer %s' -d '{\"queue\":\"hello\",\"payload\":{\"name\":\"world\"}}'\n",
		cloud.Endpoint, cloud.Access.APIKey)
	fmt.Fprintf(out, "corvo-cloud %s listens on %s, data in %s\n", version, cloud.Endpoint, cfg.DataDir)
	for _, port := range cloud.Ports {
		fmt.Fprintf(out, "  %s on %s\n", port.Name, port.URL)
	}
	if stripeURL != "" {
		fmt.Fprintf(out, "  a fake of Stripe on %s, secret key %s\n", stripeURL, stripefake.DefaultKey)
	}
	fmt.Fprintf(out, "endpoint, key and a cloud token for the cloud API and Terraform: %s\n", filepath.Join(cfg.DataDir, allinone.EnvFile))
	for _, host := range cloud.SeparateHosts() {
		fmt.Fprintf(out, "log of %s: %s\n", host, cfg.logPath(host))
	}
	fmt.Fprintf(out, "log: %s\n", cfg.logPath(cloudLog))
}
