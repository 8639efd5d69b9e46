// Package allinone runs a whole cloud in one process: control plane, gateway and one host, which speak to
// each other over loopback exactly as they do between machines. `corvo-cloud dev` runs it, and tests across
// the planes start it. Besides the command, only this package sees both planes.
package allinone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/serve/about"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/controlplane"
	"github.com/corvo/corvo/controlplane/gateway"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy/keyring"
)

// Region is the region of a development cloud's host.
const Region = "local"

// Config says where the cloud keeps its data and listens.
type Config struct {
	DataDir         string
	Listener        net.Listener // the one port for cloud API and gateway
	Version         string
	FeedBytes       uint64               // see cell.Config
	ViewLagLimit    time.Duration        // see cell.Config
	ShutdownTimeout time.Duration        // 0 = 30 s
	Tracer          trace.TracerProvider // nil = no traces
	Logger          *slog.Logger
}

// Cloud is a running cloud.
type Cloud struct {
	Endpoint string
	// Access is the access that the first start created for the user.
	Access Access
	// Ports lists the loopback addresses at which the parts listen for each other.
	Ports []Port

	cfg    Config
	failed chan error
	parts  []part      // in the order of their start
	ready  atomic.Bool // EnvFile is written
}

// Port is the address at which a part of the cloud listens.
type Port struct{ Name, URL string }

// part is something that runs until it is stopped.
type part struct {
	name string
	stop func(ctx context.Context) error
}

// Open starts all parts and returns once the endpoint serves a request with the key of the first namespace.
// If the user has since revoked that key or deleted the namespace, Open logs a warning and returns the cloud
// too.
func Open(ctx context.Context, cfg Config) (_ *Cloud, err error) {
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = 30 * time.Second
	}
	if err := durable.MakeDir(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	c := &Cloud{Endpoint: front.URL(cfg.Listener.Addr()), cfg: cfg, failed: make(chan error, 8)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	operator, err := c.secret("operator", keyring.CloudOperator)
	if err != nil {
		return nil, err
	}
	plane, control, err := c.openPlane(ctx, operator)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	door, err := c.openGateway(control)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if err := c.openHost(ctx, control); err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	c.serve("cloud API and gateway", cfg.Listener, c.untilReady(Public(plane.Handler(), door)), func() { door.Drain(); plane.Drain() })
	if c.Access, err = provision(ctx, c.cfg.DataDir, c.Endpoint, operator); err != nil {
		return nil, fmt.Errorf("first namespace: %w", err)
	}
	c.ready.Store(true)
	if err := c.Access.works(ctx); err != nil {
		c.cfg.Logger.Warn("the first namespace does not accept its key", "error", err)
	}
	return c, nil
}

// Public returns the handler of a port that serves the cloud API and tenants' traffic.
func Public(plane, door http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, prefix := range []string{"/cloud/", "/.well-known/", "/healthz", "/readyz"} {
		mux.Handle(prefix, plane)
	}
	mux.Handle("/", door)
	return about.Wrap(mux, about.Site{
		Name: "Corvo cloud", Text: "A job queue in the cloud, and the cloud API for its namespaces and keys, at one address.",
		Documents: []about.Document{about.APIDocument, about.CloudDocument}, Start: about.StartAtAPI,
	})
}

// untilReady answers /readyz with 503 until EnvFile is written, because a user has no credentials before.
func (c *Cloud) untilReady(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && !c.ready.Load() {
			// An error means that the client is gone.
			_ = serve.WriteJSON(w, http.StatusServiceUnavailable, api.Health{Status: "unavailable", Checks: map[string]string{EnvFile: "not written yet"}})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *Cloud) secret(name string, kind keyring.Kind) (string, error) {
	text, err := Secret(filepath.Join(c.cfg.DataDir, secretsDir, name), kind)
	if err != nil {
		return "", fmt.Errorf("secret of the %s: %w", name, err)
	}
	return text, nil
}

// openPlane starts the control plane and returns the loopback URL at which the other parts reach it.
func (c *Cloud) openPlane(ctx context.Context, operator string) (_ *controlplane.Plane, control string, err error) {
	plane, err := controlplane.Open(ctx, controlplane.Config{
		DataDir:  filepath.Join(c.cfg.DataDir, "controlplane"),
		NodeID:   "dev",
		Endpoint: c.Endpoint,
		Version:  c.cfg.Version,
		Tracer:   c.cfg.Tracer,
		Logger:   c.cfg.Logger,
	})
	if err != nil {
		return nil, "", err
	}
	c.started("control plane", plane.Close)
	if err := c.revoked("operator", plane.EnsureOperator(ctx, operator)); err != nil {
		return nil, "", err
	}
	for name, kind := range map[string]keyring.Kind{"host": keyring.Host, "gateway": keyring.Gateway} {
		credential, err := c.secret(name, kind)
		if err != nil {
			return nil, "", err
		}
		err = plane.EnsureHost(ctx, "dev-"+name, kind, Region, credential)
		if api.CodeOf(err) == api.Conflict { // its file was removed, so that secret made a new one
			err = plane.ReplaceHostCredential(ctx, "dev-"+name, kind, credential)
		}
		if err := c.revoked(name, err); err != nil {
			return nil, "", err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	c.listens("control plane", listener)
	c.serve("control plane", listener, plane.Handler(), plane.Drain)
	return plane, front.URL(listener.Addr()), nil
}

// revoked lets a start continue without a credential that somebody has revoked or that has expired. A start must
// not restore the credential, because there may be good reasons for its end.
func (c *Cloud) revoked(name string, err error) error {
	if api.CodeOf(err) == api.Conflict {
		c.cfg.Logger.Warn("a credential in the data directory was revoked or has expired, and gives no access", "credential", name, "error", err)
		return nil
	}
	return err
}

func (c *Cloud) openGateway(control string) (*gateway.Gateway, error) {
	credential, err := c.secret("gateway", keyring.Gateway)
	if err != nil {
		return nil, err
	}
	door, err := gateway.New(gateway.Config{
		DataDir:      filepath.Join(c.cfg.DataDir, "gateway"),
		ControlPlane: control,
		Credential:   credential,
		Version:      c.cfg.Version,
		Tracer:       c.cfg.Tracer,
		Logger:       c.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	c.run("gateway", door.Run)
	return door, nil
}

func (c *Cloud) openHost(ctx context.Context, control string) error {
	credential, err := c.secret("host", keyring.Host)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	host, err := dataplane.OpenHost(ctx, dataplane.HostConfig{
		DataDir:      filepath.Join(c.cfg.DataDir, "host"),
		ControlPlane: control,
		Credential:   credential,
		Address:      front.URL(listener.Addr()),
		Version:      c.cfg.Version,
		// The machine of a developer may have a full disk for other reasons, and there is no other host.
		MaxDiskPercent: 100,
		FeedBytes:      c.cfg.FeedBytes,
		ViewLagLimit:   c.cfg.ViewLagLimit,
		Tracer:         c.cfg.Tracer,
		Logger:         c.cfg.Logger,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	c.started("host", host.Close)
	c.listens("host", listener)
	c.serve("host", listener, host.Handler(), host.Drain)
	return nil
}

// started adds a part that Close stops.
func (c *Cloud) started(name string, stop func(context.Context) error) {
	c.parts = append(c.parts, part{name, stop})
}

// run starts a part that runs until Close cancels its context.
func (c *Cloud) run(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := run(ctx)
		if ctx.Err() == nil {
			c.failed <- fmt.Errorf("%s stopped: %w", name, err)
		}
		done <- err
	}()
	c.started(name, func(context.Context) error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}

// listens adds the address of a part to Ports.
func (c *Cloud) listens(name string, listener net.Listener) {
	c.Ports = append(c.Ports, Port{Name: name, URL: front.URL(listener.Addr())})
}

// serve serves the port of a part until Close.
func (c *Cloud) serve(name string, listener net.Listener, handler http.Handler, drain func()) {
	c.run("the port of the "+name, func(ctx context.Context) error {
		return front.Serve(ctx, listener, front.Config{
			Name: name, Handler: handler, Drain: drain, ShutdownTimeout: c.cfg.ShutdownTimeout, Logger: c.cfg.Logger,
		})
	})
}

// Wait returns nil when ctx ends, or the error of a part that stopped by itself.
func (c *Cloud) Wait(ctx context.Context) error {
	select {
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Close stops the parts in the reverse order of their start, so that each still finds the parts that it
// speaks to.
func (c *Cloud) Close(ctx context.Context) error {
	var errs []error
	for i := len(c.parts) - 1; i >= 0; i-- {
		if err := c.parts[i].stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", c.parts[i].name, err))
		}
	}
	c.parts = nil
	return errors.Join(errs...)
}
