package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/telemetry"
)

// running is what every long-running command has open.
type running struct {
	log     *slog.Logger
	tracing *telemetry.Tracing
}

// begin opens the log and the traces of a command.
func (p *process) begin(ctx context.Context, service, instance string) (*running, error) {
	if p.ShutdownTimeout <= 0 {
		return nil, fmt.Errorf("--shutdown-timeout is %v; it must be positive", p.ShutdownTimeout)
	}
	log, err := settings.Logger(p.LogLevel)
	if err != nil {
		return nil, err
	}
	tracing, err := telemetry.OpenTracing(ctx, telemetry.TraceConfig{
		Endpoint: p.OTelEndpoint, Service: service, Instance: instance, Version: version, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--otel-endpoint: %w", err)
	}
	return &running{log: log, tracing: tracing}, nil
}

func (r *running) tracer() trace.TracerProvider { return r.tracing.Provider() }

// end closes what a command had open, within its shutdown timeout, and joins what
// goes wrong to err.
func (p *process) end(ctx context.Context, r *running, err error, stops ...func(context.Context) error) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.ShutdownTimeout)
	defer cancel()
	for _, stop := range stops {
		err = errors.Join(err, stop(closing))
	}
	if lost := r.tracing.Close(closing); lost != nil {
		r.log.Warn("the last spans did not reach their receiver", "error", lost)
	}
	return err
}

// joining is how a part finds the control plane.
type joining struct {
	ControlPlane   string `flag:"control-plane" doc:"URL of the control plane"`
	CredentialFile string `flag:"credential-file" doc:"file with the credential that POST /cloud/v1/hosts answered"`
}

func (j *joining) credential() (string, error) {
	if j.ControlPlane == "" {
		return "", errors.New("--control-plane is missing: the URL of the control plane")
	}
	if j.CredentialFile == "" {
		return "", errors.New("--credential-file is missing: register with POST /cloud/v1/hosts and keep the credential of its answer in a file")
	}
	content, err := os.ReadFile(j.CredentialFile)
	if err != nil {
		return "", fmt.Errorf("--credential-file: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

func listen(bind string) (net.Listener, error) {
	listener, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("--bind: %w", err)
	}
	return listener, nil
}
