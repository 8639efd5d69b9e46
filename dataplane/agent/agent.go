// Package agent makes a data-plane process a host of the cloud: it follows the
// control plane's documents, opens and deletes the namespaces they name, reports
// where each stands and says who may enter. What it has been told is on disk, so
// that it serves the same namespaces with the same keys while the control plane is
// down. It decides neither which namespaces there are nor where they live, and
// never deletes what no document says is to be absent. It may import what is above
// it in the data plane and api/fleet.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// CatalogueFile is the name of the catalogue below the data directory.
const CatalogueFile = "catalogue"

// The bounds of an agent.
const (
	// MaxChanging is how many namespaces are opened or deleted at once; the others
	// wait.
	MaxChanging = 8
	// MaxGone is how many deleted namespaces are remembered and reported. Of more
	// the oldest are forgotten.
	MaxGone = 1000
	// OpenLimit is how long one try to open a namespace may take.
	OpenLimit = time.Minute
	// FirstRetry and LongestRetry are the waits after a change that failed; each is
	// twice the one before.
	FirstRetry   = 500 * time.Millisecond
	LongestRetry = 30 * time.Second
)

// Config says which host this is.
type Config struct {
	DataDir      string // the catalogue lies in it
	ControlPlane string // base URL
	Credential   string // of the host, cv_host_...
	Address      string // base URL where gateways reach this host
	Version      string

	HTTP   *http.Client         // nil = one of its own
	Tracer trace.TracerProvider // nil = no traces
	Now    func() time.Time     // nil = time.Now
	Logger *slog.Logger         // nil = slog.Default()
}

// Agent follows the control plane for one host. Its methods may be called by any
// goroutine.
type Agent struct {
	cfg       Config
	member    *fleet.Member
	directory *fleet.Directory
	catalogue *fleet.Catalogue
	tracer    trace.Tracer // nil = no traces
	host      *host.Host   // set by Start
	passes    passes
	used      lastUsed
	heard     atomic.Bool // all documents there were have been seen, in this run or an earlier
	reported  atomic.Bool // the control plane has taken a report of this run

	slots   chan struct{} // one for each change under way
	news    chan struct{} // holds one: there is something to report
	running sync.WaitGroup
	ctx     context.Context // ends with Close
	stop    context.CancelFunc

	mu         sync.Mutex // guards placements and what is in them
	placements map[string]*placement
}

// Open reads the catalogue. It connects to nothing and opens no namespace: see
// Start. Member is good for usage from here on.
func Open(cfg Config) (_ *Agent, err error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := durable.MakeDir(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	a := &Agent{
		cfg:        cfg,
		directory:  fleet.NewDirectory(),
		tracer:     telemetry.Tracer(cfg.Tracer),
		slots:      make(chan struct{}, MaxChanging),
		news:       make(chan struct{}, 1),
		placements: make(map[string]*placement),
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	var docs []fleet.Doc
	if a.catalogue, docs, err = fleet.OpenCatalogue(filepath.Join(cfg.DataDir, CatalogueFile)); err != nil {
		return nil, err
	}
	for _, d := range docs {
		a.directory.Put(d)
		a.placements[d.Namespace] = newPlacement(d)
	}
	a.heard.Store(a.catalogue.Number() > 0)
	a.member, err = fleet.NewMember(fleet.MemberConfig{
		ControlPlane: cfg.ControlPlane,
		Credential:   cfg.Credential,
		Join:         fleet.JoinRequest{Address: cfg.Address, Version: cfg.Version},
		Trusted:      a.catalogue.Trusted(),
		HTTP:         cfg.HTTP,
		Now:          cfg.Now,
		Logger:       cfg.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, a.catalogue.Close())
	}
	return a, nil
}

// Member is this host as the control plane knows it.
func (a *Agent) Member() *fleet.Member { return a.member }

// Start brings h to what the catalogue says and follows the control plane from
// then on. It returns once every namespace of the catalogue has been opened, or
// has failed to be for the first time: it waits for no control plane. It is
// called once.
func (a *Agent) Start(ctx context.Context, h *host.Host) error {
	a.host = h
	if err := a.noteStrangers(); err != nil {
		return err
	}
	a.mu.Lock()
	tried := make([]<-chan struct{}, 0, len(a.placements))
	for _, p := range a.placements {
		tried = append(tried, p.tried)
		a.advance(p)
	}
	a.mu.Unlock()
	for _, done := range tried {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("open the namespaces of the catalogue: %w", ctx.Err())
		}
	}
	a.running.Go(func() {
		err := a.member.Run(a.ctx, fleet.Follow{
			After: a.catalogue.Number(), Keep: a.keep, OnDoc: a.take, OnNumber: a.takeNumber,
		})
		if err != nil {
			a.cfg.Logger.Error("this host no longer follows the control plane", "error", err)
		}
	})
	a.running.Go(a.reportAlways)
	return nil
}

// Close ends following and waits for the changes under way. The namespaces stay
// open: they are the host's to close.
func (a *Agent) Close() error {
	a.stop()
	a.running.Wait()
	a.member.Close()
	return a.catalogue.Close()
}

// takeNumber notes that all documents there are have been seen.
func (a *Agent) takeNumber(int64) {
	a.heard.Store(true)
	if !a.reported.Load() {
		a.tell()
	}
}

// noteStrangers tells of data that no document speaks of. It may be the last copy
// of something, so it is left alone.
func (a *Agent) noteStrangers() error {
	all, err := a.host.OnDisk()
	if err != nil {
		return err
	}
	for _, ns := range all {
		if _, known := a.placements[string(ns)]; !known {
			a.cfg.Logger.Warn("there is data of a namespace that the catalogue does not know: it is neither opened nor deleted", "namespace", ns)
		}
	}
	return nil
}

// keep makes a message durable before it is acted on, but for documents that are
// refused: after a restart the catalogue is all that is known.
func (a *Agent) keep(m fleet.Message) error {
	if len(m.JWKS) > 0 {
		a.passes.forget()
	}
	if len(m.Doc) > 0 {
		var d fleet.Doc
		if err := json.Unmarshal(m.Doc, &d); err != nil {
			return fmt.Errorf("document %d: %w", m.Number, err)
		}
		if a.refusal(d) != "" {
			return nil
		}
	}
	return a.catalogue.Put(m)
}

// refusal says why a document is not acted on; "" when it is. One of a generation
// before one that was seen was made by who does not know of a later decision, and
// a namespace that is open on two hosts would be two.
func (a *Agent) refusal(d fleet.Doc) string {
	// Without an id there is no stream yet, and the catalogue was checked.
	if id := a.member.ID(); id != "" && d.Desired == fleet.Open && d.Host != id {
		return "it places the namespace on another host"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.placements[d.Namespace]; p != nil && d.Generation < p.doc.Generation {
		return "it is of a generation before one that was seen"
	}
	return ""
}

// take acts on a document: at once on who may enter, and on what is to be open as
// soon as there is a slot.
func (a *Agent) take(d fleet.Doc) error {
	if reason := a.refusal(d); reason != "" {
		a.cfg.Logger.Warn("a document is refused", "reason", reason,
			"namespace", d.Namespace, "number", d.Number, "generation", d.Generation, "host", d.Host)
		return nil
	}
	if !a.directory.Put(d) {
		return nil
	}
	a.host.Recheck(tenancy.NamespaceID(d.Namespace)) // keys may be gone that polls wait with
	a.mu.Lock()
	p := a.placements[d.Namespace]
	if p == nil {
		p = newPlacement(d)
		a.placements[d.Namespace] = p
	}
	p.doc = d
	a.advance(p)
	a.mu.Unlock()
	a.tell()
	return a.forgetGone()
}

// forgetGone keeps the memory of deleted namespaces within MaxGone.
func (a *Agent) forgetGone() error {
	a.mu.Lock()
	var gone []*placement
	for _, p := range a.placements {
		if p.state == fleet.Gone && !p.busy {
			gone = append(gone, p)
		}
	}
	slices.SortFunc(gone, func(x, y *placement) int { return cmp.Compare(y.doc.Number, x.doc.Number) })
	gone = gone[min(len(gone), MaxGone):]
	for _, p := range gone {
		delete(a.placements, p.doc.Namespace)
	}
	a.mu.Unlock()
	for _, p := range gone {
		if err := a.catalogue.Forget(p.doc.Namespace); err != nil {
			return err
		}
	}
	return nil
}
