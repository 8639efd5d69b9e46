package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/internal/allinone"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// devConfig is what `corvo-cloud dev` can be told.
type devConfig struct {
	process
	Bind    string `flag:"bind" default:"127.0.0.1:8080" doc:"address of the one port: cloud API and gateway"`
	DataDir string `flag:"data-dir" default:"data" doc:"directory for all data"`
}

func newDev() *cobra.Command {
	var cfg devConfig
	return command("dev", "Run a whole cloud in one process, for development", &cfg, &cfg.Config,
		func(ctx context.Context, cmd *cobra.Command) error { return cfg.run(ctx, cmd.OutOrStdout()) })
}

func (cfg *devConfig) check(f *misuse.Faults) {
	cfg.process.check(f)
	checkBind(f, "--bind", cfg.Bind)
	f.Refuse(front.Loopback(cfg.Bind), "--bind is %q: a development cloud speaks plain HTTP and keeps its secrets in files, so it binds to a loopback address such as 127.0.0.1:8080", cfg.Bind)
	f.Refuse(cfg.DataDir != "", "--data-dir is empty")
}

func (cfg *devConfig) run(ctx context.Context, out io.Writer) error {
	r, err := cfg.begin(ctx, "corvo-cloud", "dev")
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

// greet says where the cloud listens and how to talk to it, with a line that works
// when pasted.
func (cfg *devConfig) greet(out io.Writer, cloud *allinone.Cloud) {
	fmt.Fprintf(out, "corvo-cloud %s listens on %s, data in %s\n", version, cloud.Endpoint, cfg.DataDir)
	fmt.Fprintf(out, "API key of namespace demo: %s\n", cloud.Access.APIKey)
	fmt.Fprintf(out, "both, and a cloud token for the cloud API and Terraform, are in %s\n", filepath.Join(cfg.DataDir, allinone.EnvFile))
	fmt.Fprintf(out, "try: curl -s %s/api/v1/enqueue -H 'Authorization: Bearer %s' -d '{\"queue\":\"hello\",\"payload\":{\"name\":\"world\"}}'\n",
		cloud.Endpoint, cloud.Access.APIKey)
}
