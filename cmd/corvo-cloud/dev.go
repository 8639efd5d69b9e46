package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

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
}

func newDev() *cobra.Command {
	var cfg devConfig
	cmd := command("dev", "Run a whole cloud in one process, for development", &cfg, &cfg.Config,
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
}

func (cfg *devConfig) run(ctx context.Context, out io.Writer) (err error) {
	if err := datadir.Check(cfg.DataDir, datadir.DevCloud); err != nil {
		return err
	}
	if err := durable.MakeDir(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	file, err := openLog(filepath.Join(cfg.DataDir, logFile), filepath.Join(cfg.DataDir, oldLogFile), maxLogBytes)
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
		FeedBytes:       uint64(cfg.MaxFeedBytes),
		ViewLagLimit:    cfg.ViewLagLimit,
		ShutdownTimeout: cfg.ShutdownTimeout,
		Tracer:          r.tracer(),
		Logger:          r.log,
	})
	if err != nil {
		return cfg.end(ctx, r, err)
	}
	cfg.greet(out, cloud)
	return cfg.end(ctx, r, cloud.Wait(ctx), cloud.Close)
}

// greet prints the key and a command line that works when pasted, then the addresses of the cloud and the
// paths of its files.
func (cfg *devConfig) greet(out io.Writer, cloud *allinone.Cloud) {
	fmt.Fprintf(out, "API key of namespace demo: %s\n", cloud.Access.APIKey)
	fmt.Fprintf(out, "try: curl -s %s/api/v1/enqueue -H 'Authorization: Bearer %s' -d '{\"queue\":\"hello\",\"payload\":{\"name\":\"world\"}}'\n",
		cloud.Endpoint, cloud.Access.APIKey)
	fmt.Fprintf(out, "corvo-cloud %s listens on %s, data in %s\n", version, cloud.Endpoint, cfg.DataDir)
	for _, port := range cloud.Ports {
		fmt.Fprintf(out, "  %s on %s\n", port.Name, port.URL)
	}
	fmt.Fprintf(out, "endpoint, key and a cloud token for the cloud API and Terraform: %s\n", filepath.Join(cfg.DataDir, allinone.EnvFile))
	fmt.Fprintf(out, "log: %s\n", filepath.Join(cfg.DataDir, logFile))
}
