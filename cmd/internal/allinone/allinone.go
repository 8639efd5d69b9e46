// Package allinone runs a whole cloud in one process: control plane, gateway and one host, which speak to
// each other over loopback exactly as they do between machines. With several hosts, each host is a process of its
// own, and the parts speak TLS. `corvo-cloud dev` runs it, and tests across the planes start it. Besides the command,
// only this package sees both planes.
package allinone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
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
	DataDir  string
	Listener net.Listener // the one port for cloud API and gateway
	Version  string
	// Hosts is the number of hosts, at most MaxHosts; 0 = 1. If there are more than one, HostCommand makes the
	// command that runs `corvo-cloud host` with further flags, and HostLog opens the log of a host.
	Hosts           int
	HostCommand     func(ctx context.Context, flags ...string) *exec.Cmd
	HostLog         func(host string) (io.WriteCloser, error)
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
	cfg.Hosts = max(cfg.Hosts, 1)
	if err := durable.MakeDir(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	c := &Cloud{Endpoint: front.URL(cfg.Listener.Addr()), cfg: cfg, failed: make(chan error, 8+MaxHosts)}
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
	door, err := c.openGateway(control, plane.FleetRoot())
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if c.separate() {
		err = c.openHosts(ctx, control, plane.FleetRoot())
	} else {
		err = c.openHost(ctx, control)
	}
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	c.serve("cloud API and gateway", cfg.Listener, front.Config{
		Handler: c.untilReady(Public(plane.Handler(), door)), Drain: func() { door.Drain(); plane.Drain() },
	})
	if c.Access, err = provision(ctx, c.cfg.DataDir, c.Endpoint, operator); err != nil {
		return nil, fmt.Errorf("first namespace: %w", err)
	}
	c.ready.Store(true)
	if err := c.Access.works(ctx); err != nil {
		c.cfg.Logger.Warn("the first namespace does not accept its key", "error", err)
	}
	return c, nil
}

// separate reports whether the hosts are processes of their own.
func (c *Cloud) separate() bool { return c.cfg.Hosts > 1 }

// certificate opens the file with the certificate of a part in its directory. It returns nil if the parts speak plain
// HTTP, because all of them are in this process.
func (c *Cloud) certificate(dir string, of certificate.Config) (*certificate.Holder, error) {
	if !c.separate() {
		return nil, nil
	}
	of.Path, of.Logger = filepath.Join(dir, certificate.FileName), c.cfg.Logger
	return certificate.Open(of)
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
	dir := filepath.Join(c.cfg.DataDir, "controlplane")
	held, err := c.certificate(dir, certificate.Config{Kind: certificate.ControlPlane})
	if err != nil {
		return nil, "", err
	}
	plane, err := controlplane.Open(ctx, controlplane.Config{
		DataDir:     dir,
		NodeID:      "dev",
		Endpoint:    c.Endpoint,
		Version:     c.cfg.Version,
		Certificate: held,
		Tracer:      c.cfg.Tracer,
		Logger:      c.cfg.Logger,
	})
	if err != nil {
		return nil, "", err
	}
	c.started("control plane", plane.Close)
	if err := c.revoked("operator", plane.EnsureOperator(ctx, operator)); err != nil {
		return nil, "", err
	}
	if err := c.ensureMember(ctx, plane, "gateway", keyring.Gateway); err != nil {
		return nil, "", err
	}
	for n := 1; n <= c.cfg.Hosts; n++ {
		if err := c.ensureMember(ctx, plane, hostName(n), keyring.Host); err != nil {
			return nil, "", err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	serving := front.Config{Handler: plane.Handler(), Drain: plane.Drain}
	if held != nil {
		serving.TLS = fleet.ControlPlaneServer(held)
	}
	c.listens("control plane", serving.URL(listener.Addr()))
	c.serve("control plane", listener, serving)
	return plane, serving.URL(listener.Addr()), nil
}

// ensureMember registers a host or the gateway with its credential.
func (c *Cloud) ensureMember(ctx context.Context, plane *controlplane.Plane, name string, kind keyring.Kind) error {
	credential, err := c.secret(name, kind)
	if err != nil {
		return err
	}
	err = plane.EnsureHost(ctx, "dev-"+name, kind, Region, credential)
	if api.CodeOf(err) == api.Conflict { // its file was removed, so that secret made a new one
		err = plane.ReplaceHostCredential(ctx, "dev-"+name, kind, credential)
	}
	if api.CodeOf(err) == api.NotFound {
		return fmt.Errorf("dev-%s was removed from the cloud: delete %s and %s to register it anew, or start with fewer hosts",
			name, filepath.Join(c.cfg.DataDir, secretsDir, name), filepath.Join(c.cfg.DataDir, name))
	}
	return c.revoked(name, err)
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

func (c *Cloud) openGateway(control, root string) (*gateway.Gateway, error) {
	credential, err := c.secret("gateway", keyring.Gateway)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.cfg.DataDir, "gateway")
	held, err := c.certificate(dir, certificate.Config{Kind: certificate.Gateway, FleetRoot: root})
	if err != nil {
		return nil, err
	}
	door, err := gateway.New(gateway.Config{
		DataDir:      dir,
		ControlPlane: control,
		Credential:   credential,
		Version:      c.cfg.Version,
		Certificate:  held,
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
		DataDir:        filepath.Join(c.cfg.DataDir, hostName(1)),
		ControlPlane:   control,
		Credential:     credential,
		Address:        front.URL(listener.Addr()),
		Version:        c.cfg.Version,
		MaxDiskPercent: maxDiskPercent,
		FeedBytes:      c.cfg.FeedBytes,
		ViewLagLimit:   c.cfg.ViewLagLimit,
		Tracer:         c.cfg.Tracer,
		Logger:         c.cfg.Logger,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	c.started("host", host.Close)
	c.listens("host", front.URL(listener.Addr()))
	c.serve("host", listener, front.Config{Handler: host.Handler(), Drain: host.Drain})
	return nil
}

// maxDiskPercent bounds nothing, because the machine of a developer may have a full disk for other reasons, and all
// hosts have the same one.
const maxDiskPercent = 100

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
func (c *Cloud) listens(name, url string) {
	c.Ports = append(c.Ports, Port{Name: name, URL: url})
}

// serve serves the port of a part until Close.
func (c *Cloud) serve(name string, listener net.Listener, serving front.Config) {
	serving.Name, serving.ShutdownTimeout, serving.Logger = name, c.cfg.ShutdownTimeout, c.cfg.Logger
	c.run("the port of the "+name, func(ctx context.Context) error { return front.Serve(ctx, listener, serving) })
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
