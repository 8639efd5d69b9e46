// Package controlplane assembles a control plane from its state, the reconciler, the signer of its keys, the
// authority of the fleet's certificates and the HTTP server. Open returns a control plane that serves. The
// packages below make the decisions.
package controlplane

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/reconcile"
	"github.com/corvo/corvo/controlplane/server"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// MinHostGrace is the least Config.HostGrace, because a host is alive for that long after a report.
const MinHostGrace = reconcile.AliveLimit

// Config configures a control plane. DataDir and Endpoint are required.
type Config struct {
	DataDir  string
	NodeID   string // "" = minted at the first start
	Endpoint string // base URL where tenants reach their namespaces
	Version  string

	// Certificate holds the certificate of this process. Open issues a new one into it, and the Plane renews
	// that one. nil = the process has none.
	Certificate *certificate.Holder
	Names       []string // DNS names and IP addresses at which operators reach this process, for its certificate
	// RootsFile is the file in which the Plane keeps the fleet's roots in PEM, for the programs of operators; "" = none.
	RootsFile string

	// Cluster says how this process finds the other processes of the control plane; nil = it is the only one.
	// Open sets its fields that follow from this Config, such as the data directory, the node id and the
	// logger.
	Cluster *cluster.Config
	// Engine tunes the log. With a Cluster, Open sets Transport, and a missing Autopilot means the default
	// one.
	Engine engine.Tuning

	SigningPeriod  time.Duration // how long a key signs; 0 = server.DefaultSigningPeriod
	ProposeTimeout time.Duration // longest wait for a write's commit; 0 = server.DefaultProposeTimeout
	// MaxLevel is the highest feature level of the state that this process takes; 0 = store.FeatureLevel. Tests of an
	// upgrade set it.
	MaxLevel  uint32
	HostGrace time.Duration // time without a report after which a host's members are replaced; 0 = reconcile.HostGrace

	Now     func() time.Time     // nil = time.Now
	Rand    io.Reader            // nil = crypto/rand
	Tracer  trace.TracerProvider // nil = no traces
	Metrics *telemetry.Registry  // nil = one of its own
	Logger  *slog.Logger         // nil = slog.Default()

	// Reached is called before and after every change that the reconciler makes, so that a test can stop the
	// control plane there. nil = no call.
	Reached func(point string)
}

// Plane is an open control plane.
type Plane struct {
	now       func() time.Time
	cluster   *cluster.Cluster // nil = the only process
	store     *store.Store
	signer    *server.Signer
	authority *server.Authority
	server    *server.Server
	inFile    certificate.Bundle // the roots in Config.RootsFile; only certify uses it

	stop context.CancelFunc // ends the loops
	work sync.WaitGroup     // the loops: reconciler and signer
}

// Open opens or creates the control plane in cfg.DataDir. It returns once the process serves reads and writes
// and has a signing key. With a Cluster, Open first waits until the process is in its cluster and reaches a
// leader, if need be until ctx ends. ctx bounds only the opening.
func Open(ctx context.Context, cfg Config) (_ *Plane, err error) {
	if cfg.DataDir == "" || cfg.Endpoint == "" {
		return nil, errors.New("a control plane needs a data directory and the endpoint of its data planes")
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	p := &Plane{now: cfg.Now, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := p.openStore(ctx, cfg); err != nil {
		return nil, err
	}
	if p.authority, err = server.OpenAuthority(ctx, server.AuthorityConfig{Store: p.store, Now: cfg.Now, Rand: cfg.Rand, Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	if cfg.Certificate != nil {
		cfg.Certificate.Renew() // the names may have changed
	}
	if err := p.certify(cfg); err != nil {
		return nil, err
	}
	p.signer, err = server.OpenSigner(ctx, server.SignerConfig{
		Store: p.store, Period: cfg.SigningPeriod, Now: cfg.Now, Rand: cfg.Rand, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	return p, p.serve(cfg)
}

// openStore enters the cluster, if there is one, and opens the store. It returns once the store takes writes and
// has every change that was acknowledged before.
func (p *Plane) openStore(ctx context.Context, cfg Config) (err error) {
	of := store.Config{
		Dir: cfg.DataDir, NodeID: cfg.NodeID, Engine: cfg.Engine, MaxLevel: cfg.MaxLevel,
		Now: cfg.Now, Rand: cfg.Rand, Tracer: cfg.Tracer, Logger: cfg.Logger,
	}
	if cfg.Cluster == nil {
		if err := cluster.CheckStandalone(cfg.DataDir); err != nil {
			return err
		}
	} else {
		if err := p.enterCluster(ctx, cfg); err != nil {
			return err
		}
		of.Engine.Transport = p.cluster.Transport()
		of.Engine.Autopilot = cmp.Or(of.Engine.Autopilot, &engine.Autopilot{})
		if groups := p.cluster.Join(); len(groups) > 0 {
			of.Join = &groups[0]
		}
	}
	if p.store, err = store.Open(of); err != nil {
		return err
	}
	if p.cluster != nil {
		if err := p.cluster.Start([]cluster.Group{p.store.Group()}); err != nil {
			return err
		}
	}
	if err := p.store.Ready(ctx); err != nil {
		return fmt.Errorf("wait for the control plane's log: %w", err)
	}
	return p.store.Verify(ctx)
}

// enterCluster founds or joins the cluster, or finds its members again.
func (p *Plane) enterCluster(ctx context.Context, cfg Config) (err error) {
	of := *cfg.Cluster
	of.DataDir, of.NodeID, of.Version, of.Logger = cfg.DataDir, cfg.NodeID, cfg.Version, cfg.Logger
	of.Level, of.Replicated = cmp.Or(cfg.MaxLevel, store.FeatureLevel), func() uint32 { return p.store.Level() }
	of.Data, of.Shards = store.RaftDir, 1
	p.cluster, err = cluster.Open(ctx, of)
	return err
}

// serve builds the server and starts the loops.
func (p *Plane) serve(cfg Config) (err error) {
	observations := reconcile.NewObservations(cfg.Now, cmp.Or(cfg.HostGrace, reconcile.HostGrace))
	plans, err := billing.ShippedPlans()
	if err != nil {
		return err
	}
	reconciler := reconcile.New(reconcile.Config{
		Store: p.store, Observations: observations, Now: cfg.Now, Rand: cfg.Rand, Tracer: cfg.Tracer, Logger: cfg.Logger, Reached: cfg.Reached, Plans: plans,
	})
	closer := reconcile.NewCloser(reconcile.CloserConfig{Store: p.store, Plans: plans, Now: cfg.Now, Logger: cfg.Logger})
	of := server.Config{
		Store: p.store, Observations: observations, Reconciler: reconciler, Signer: p.signer, Authority: p.authority,
		Endpoint: cfg.Endpoint, Version: cfg.Version, Certificate: cfg.Certificate, ProposeTimeout: cfg.ProposeTimeout,
		Now: cfg.Now, Rand: cfg.Rand, Tracer: cfg.Tracer, Metrics: cfg.Metrics, Logger: cfg.Logger,
	}
	if p.cluster != nil {
		of.Cluster = p.cluster
	}
	if p.server, err = server.New(of); err != nil {
		return err
	}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	p.work.Go(func() { reconciler.Run(ctx) })
	p.work.Go(func() { closer.Run(ctx) })
	p.work.Go(func() { p.signer.Run(ctx) })
	p.work.Go(func() {
		if err := p.store.RaiseLevel(ctx); err != nil && ctx.Err() == nil {
			cfg.Logger.Error("the feature level rises no more, because the store has stopped", "error", err)
		}
	})
	roots := make(chan struct{}, 1)
	p.work.Go(func() {
		p.authority.Run(ctx, func() {
			select {
			case roots <- struct{}{}:
			default: // keepCertified has not taken the last one yet
			}
		})
	})
	p.work.Go(func() { p.keepCertified(ctx, cfg, roots) })
	return nil
}

// certifyEvery is the time between two checks of whether the certificate of this process is due for renewal.
const certifyEvery = 10 * time.Minute

// keepCertified renews the certificate of this process in time and after each change of the fleet's roots, until ctx ends.
func (p *Plane) keepCertified(ctx context.Context, cfg Config, roots <-chan struct{}) {
	tick := time.NewTicker(certifyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-roots:
		}
		if err := p.certify(cfg); err != nil {
			cfg.Logger.Error("the certificate of this process or the file with the fleet's roots cannot be replaced; the present one stays in use, and the process tries again",
				"error", err, "in", certifyEvery)
		}
	}
}

// certify renews the certificate of this process and the file with the roots, if need be. Open calls it, and then
// keepCertified alone.
func (p *Plane) certify(cfg Config) error {
	if cfg.Certificate != nil {
		if err := p.authority.Certify(cfg.Certificate, cfg.NodeID, cfg.Names, cfg.Now(), cfg.Rand); err != nil {
			return fmt.Errorf("certificate of this process: %w", err)
		}
	}
	roots := p.authority.Bundle()
	if cfg.RootsFile == "" || p.inFile.Equal(roots) {
		return nil
	}
	if err := durable.WriteFile(cfg.RootsFile, roots.PEM(), 0o644); err != nil {
		return fmt.Errorf("the file with the fleet's roots: %w", err)
	}
	p.inFile = roots
	return nil
}

// Handler serves the cloud API, the fleet protocol, JWKS and health.
func (p *Plane) Handler() http.Handler { return p.server }

// FleetRoot returns the SHA-256 of the root that issues the fleet's certificates, in hexadecimal.
func (p *Plane) FleetRoot() string { return p.authority.Fingerprint() }

// EnsureOperator registers the key of an operator, whose text a person has generated and stored beforehand.
// Calling it again changes nothing. It refuses a text of another kind, and a key that was revoked or has expired.
func (p *Plane) EnsureOperator(ctx context.Context, keyText string) error {
	c, err := server.ReadCredential(keyText, keyring.CloudOperator, "operator")
	if err != nil {
		return fmt.Errorf("operator key: %w", err)
	}
	return p.ensure(ctx, c, &store.CreateCredential{Meta: startMeta(), Credential: c, Ensure: true})
}

// EnsureHost registers a host or gateway with a credential that a person has generated and stored beforehand.
// Calling it again changes nothing. It refuses a credential of another kind, one that was revoked or has
// expired, and a name that is registered with another credential: ReplaceHostCredential replaces that
// credential.
func (p *Plane) EnsureHost(ctx context.Context, name string, kind keyring.Kind, region, credentialText string) error {
	c, err := server.ReadCredential(credentialText, kind, name)
	if err != nil {
		return fmt.Errorf("credential of %s: %w", name, err)
	}
	o, err := p.server.NewHost(startMeta(), name, kind, region, c)
	if err != nil {
		return err
	}
	o.Ensure = true
	return p.ensure(ctx, c, o)
}

// ReplaceHostCredential adds a credential, whose text was generated and stored beforehand, to a registered
// host or gateway and revokes its other credentials. Calling it again changes nothing. It refuses an unknown
// name with NOT_FOUND, a host of another kind with STATE_CONFLICT, and a credential that was revoked or has
// expired with CONFLICT.
func (p *Plane) ReplaceHostCredential(ctx context.Context, name string, kind keyring.Kind, credentialText string) error {
	c, err := server.ReadCredential(credentialText, kind, name)
	if err != nil {
		return fmt.Errorf("credential of %s: %w", name, err)
	}
	host, err := p.store.Host(ctx, name)
	if err != nil {
		return err
	}
	c.Owner = host.ID
	old, err := p.store.Credentials(ctx, host.ID)
	if err != nil {
		return err
	}
	if err := p.ensure(ctx, c, &store.CreateCredential{Meta: startMeta(), Credential: c, Ensure: true}); err != nil {
		return err
	}
	for _, o := range old {
		if o.ID == c.Id {
			continue
		}
		if _, err := store.Propose[any](ctx, p.store, &store.RevokeCredential{Meta: startMeta(), Id: o.ID}); err != nil && api.CodeOf(err) != api.NotFound {
			return err
		}
	}
	return nil
}

// ensure proposes an op that creates a credential, unless the store has that credential already and it has not
// expired. A restart therefore adds nothing to the log. The op refuses an expired credential.
func (p *Plane) ensure(ctx context.Context, c *store.Credential, o store.Op) error {
	if known, ok := p.store.Credential(c.Id); ok && string(known.Hash[:]) == string(c.Hash) && string(known.Kind) == c.Kind && !known.Expired(p.now()) {
		return nil
	}
	_, err := store.Propose[any](ctx, p.store, o)
	return err
}

// HasOperator reports whether the control plane stores an operator's key, even one that has expired and is
// not removed yet.
func (p *Plane) HasOperator(ctx context.Context) (bool, error) {
	all, err := p.store.Credentials(ctx, "")
	return len(all) > 0, err
}

// startMeta returns the metadata of ops that a start proposes. The audit log shows "start" as their
// principal.
func startMeta() *store.Meta { return &store.Meta{Principal: "start"} }

// Drain ends the streams of documents and the waits for operations. It returns when the streams are closed.
// Other requests are not affected.
func (p *Plane) Drain() { p.server.Drain() }

// Close drains the server, stops the loops, records the pending refused requests, hands leadership over if
// another process can take it, makes the state durable and closes it. The handler must not be called afterwards.
func (p *Plane) Close(ctx context.Context) error {
	if p.server != nil {
		p.Drain()
	}
	p.stop()
	p.work.Wait()
	if p.server != nil {
		p.server.Close(ctx)
	}
	var errs []error
	if p.store != nil {
		errs = append(errs, p.store.Close(ctx))
	}
	if p.cluster != nil {
		errs = append(errs, p.cluster.Close())
	}
	return errors.Join(errs...)
}
