package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/telemetry"
)

// running holds the log and the traces of a long-running command.
type running struct {
	log     *slog.Logger
	tracing *telemetry.Tracing
}

// begin opens the log and the traces of a command. It writes the whole log to files.
func (p *process) begin(ctx context.Context, service, instance string, files ...io.Writer) (*running, error) {
	log, err := settings.Logger(p.LogLevel, files...)
	if err != nil {
		return nil, err
	}
	tracing, err := telemetry.OpenTracing(ctx, telemetry.TraceConfig{
		Endpoint: p.OTelEndpoint, Service: service, Instance: instance, Version: version, Logger: log,
	})
	if err != nil {
		return nil, misuse.Errorf("--otel-endpoint: %w", err)
	}
	return &running{log: log, tracing: tracing}, nil
}

func (r *running) tracer() trace.TracerProvider { return r.tracing.Provider() }

// unopened returns the error of a part that could not be opened, or nil if a signal interrupted its start, because a signal
// is a regular end of a command. The log has the error then.
func (r *running) unopened(ctx context.Context, part string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	r.log.Info("the "+part+" stopped before it was open", "why", err)
	return nil
}

// end closes a command's resources within its shutdown timeout and joins the errors to err.
func (p *process) end(ctx context.Context, r *running, err error, stops ...func(context.Context) error) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.ShutdownTimeout)
	defer cancel()
	for _, stop := range stops {
		err = errors.Join(err, stop(closing))
	}
	if lost := r.tracing.Close(closing); lost != nil {
		r.log.Warn("the trace receiver did not take the last spans", "error", lost)
	}
	return err
}

// joining holds the flags with which a part reaches the control plane.
type joining struct {
	ControlPlane   string `flag:"control-plane" doc:"URL of the control plane, or of each of its processes: URL,..."`
	CredentialFile string `flag:"credential-file" doc:"file with the credential that POST /cloud/v1/hosts returned"`
	FleetRoot      string `flag:"fleet-root" doc:"SHA-256 of the fleet's root, which the control plane prints; needed for the first join"`
	insecurity
}

// check reports the faults of the flags of a part, which is a host or a gateway.
func (j *joining) check(f *misuse.Faults, part string) {
	urls := strings.Split(j.ControlPlane, ",")
	for _, url := range urls {
		checkURL(f, "--control-plane", strings.TrimSpace(url), "the URL of the control plane", "https://cloud.example.com")
		j.insecurity.checkURL(f, "--control-plane", strings.TrimSpace(url))
	}
	f.Refuse(len(urls) <= fleet.MaxEndpoints, "--control-plane has %d URLs; it must have at most %d", len(urls), fleet.MaxEndpoints)
	_, err := certificate.ParseFingerprint(j.FleetRoot)
	f.Refuse(j.FleetRoot == "" || err == nil, "--fleet-root is %q; it must be the SHA-256 that `corvo-cloud server` prints, 64 hexadecimal digits", j.FleetRoot)
	f.Refuse(j.CredentialFile != "", "--credential-file is missing: register the %s with corvo cloud hosts create --secret-file, or save the credential that POST /cloud/v1/hosts returns", part)
}

func (j *joining) credential() (string, error) {
	content, err := os.ReadFile(j.CredentialFile)
	if err != nil {
		return "", misuse.Errorf("--credential-file: %w; give the file with the credential that POST /cloud/v1/hosts returned", err)
	}
	text := strings.TrimSpace(string(content))
	if err := fleet.CheckCredential(text); err != nil {
		return "", misuse.Errorf("--credential-file %s: %w", j.CredentialFile, err)
	}
	return text, nil
}

// supervised holds the flag of a part that another process starts.
type supervised struct {
	StopWithStdin bool `flag:"stop-with-stdin" doc:"shut down when standard input ends, as it does when the parent process ends"`
}

// untilStdinEnds returns a context that also ends when standard input ends, if the flag asks for it. The parent may be
// gone then, with the pipes that it read, so a line of the log that nobody reads must not kill the process.
func (s *supervised) untilStdinEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	if s.StopWithStdin {
		signal.Ignore(syscall.SIGPIPE)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end too
			stop()
		}()
	}
	return ctx, stop
}

// measured holds the flag of a part that serves its own metrics.
type measured struct {
	MetricsBind string `flag:"metrics-bind" doc:"address for metrics, /healthz and /readyz of this process, open without a credential (default none)"`
}

func (m *measured) check(f *misuse.Faults) {
	if m.MetricsBind != "" {
		checkBind(f, "--metrics-bind", m.MetricsBind)
	}
}

// serveMetrics serves the metrics and the health of a part until stop is called, if --metrics-bind is set.
func (m *measured) serveMetrics(ctx context.Context, out io.Writer, metrics, part http.Handler, p *process, r *running) (stop func() error, err error) {
	if m.MetricsBind == "" {
		return func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", m.MetricsBind)
	if err != nil {
		return nil, fmt.Errorf("--metrics-bind: %w", err)
	}
	fmt.Fprintf(out, "metrics are served on %s\n", front.URL(listener.Addr()))
	handler := http.NewServeMux()
	handler.Handle("/", metrics)
	for _, path := range []string{"/healthz", "/readyz"} { // probes have no certificate for --bind
		handler.Handle("GET "+path, part)
	}
	serving, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- front.Serve(serving, listener, front.Config{Name: "metrics", Handler: handler, ShutdownTimeout: p.ShutdownTimeout, Logger: r.log})
	}()
	return func() error { cancel(); return <-served }, nil
}

// checkBind refuses an invalid listening address.
func checkBind(f *misuse.Faults, flag, address string) {
	f.Refuse(settings.IsAddress(address), "%s is %q; it must be host:port or :port, such as :8080", flag, address)
}

// checkRaft refuses invalid addresses for Raft. Both may be empty.
func checkRaft(f *misuse.Faults, bind, advertise, example string) {
	f.Refuse(bind == "" || settings.IsAddress(bind), "--raft-bind is %q; it must be host:port or :port", bind)
	_, _, err := net.SplitHostPort(advertise)
	f.Refuse(err != nil || settings.IsPeer(advertise), "--raft-advertise is %q; it must be a name or an address, with a port or without, such as %s", advertise, example)
}

// checkURL refuses a missing or invalid URL.
func checkURL(f *misuse.Faults, flag, url, what, example string) {
	f.Refuse(url != "", "%s is missing: %s", flag, what)
	f.Refuse(url == "" || settings.IsURL(url), "%s is %q; it must be a URL such as %s", flag, url, example)
}

func listen(bind string) (net.Listener, error) {
	listener, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("--bind: %w", err)
	}
	return listener, nil
}
