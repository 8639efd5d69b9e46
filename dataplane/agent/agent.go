// Package agent makes a data-plane process a host of the cloud. It follows the control plane's documents,
// opens and deletes the namespaces they name, reports the state of each, and authenticates requests. It
// stores the documents on disk, so that it serves the same namespaces with the same keys while the control
// plane is down. It does not decide which namespaces exist or on which hosts they are, and it deletes a
// namespace only if a document wants it absent or wants this host to leave it. It may import host, every
// package that host may import, and api/fleet.
//
// A document names the stores with the namespace. The agent follows the entry of its own store: the store founds the
// namespace's groups, joins them, or serves on until the groups have removed it. The list of members in the document
// goes to the groups through their leaders (Members): the host of a leader proposes it, and the leader changes the
// Raft configuration towards the list in its own log, never towards the document (ADR 0065). The agent reports which
// groups its store leads, and their configurations.
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
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/telemetry"
	"github.com/corvo/corvo/tenancy"
)

// CatalogueFile is the name of the catalogue below the data directory.
const CatalogueFile = "catalogue"

// These constants bound an agent.
const (
	// MaxChanging is the most namespaces that are opened or deleted at a time; others wait.
	MaxChanging = 8
	// MaxGone is the most deleted namespaces that are remembered and reported. Beyond it the oldest are
	// forgotten.
	MaxGone = 1000
	// OpenLimit bounds one attempt to open a namespace.
	OpenLimit = time.Minute
	// FirstRetry and LongestRetry bound the pause after a failed change. The pause doubles with each failure.
	FirstRetry   = 500 * time.Millisecond
	LongestRetry = 30 * time.Second
)

// Config describes this host.
type Config struct {
	DataDir      string // contains the catalogue
	Store        string // id of the data directory
	ControlPlane string // base URLs of its processes, separated by commas
	Credential   string // of the host, cv_host_...
	Address      string // base URL at which gateways reach this host
	Version      string
	Certificate  *certificate.Holder // of the host, for the control plane; nil = it has none and speaks plain HTTP
	// Transport reaches the Raft members on other hosts; nil = the host has only namespaces with one replica.
	Transport *transport.Transport
	// MaxDiskPercent is the used share of the disk at which the host stops getting new namespaces; 0 =
	// fleet.DefaultMaxDiskPercent.
	MaxDiskPercent int

	HTTP   *http.Client         // nil = a client of its own
	Tracer trace.TracerProvider // nil = no traces
	Now    func() time.Time     // nil = time.Now
	Logger *slog.Logger         // nil = slog.Default()
}

// Agent follows the control plane for one host. Its methods may be called from any goroutine.
type Agent struct {
	cfg       Config
	member    *fleet.Member
	directory *fleet.Directory
	catalogue *fleet.Catalogue
	tracer    trace.Tracer // nil = no traces
	host      *host.Host   // set by Start
	passes    passes
	used      lastUsed
	synced    atomic.Bool // every existing document was received, in this run or an earlier one
	reported  atomic.Bool // the control plane has accepted a report of this run

	diskUnknown atomic.Bool // the disk could not be measured for the last report

	slots     chan struct{} // holds a token for each change in progress
	reportDue chan struct{} // holds a token while a report is due
	asks      chan ask      // requests for documents that wait to be sent
	running   sync.WaitGroup
	changes   sync.WaitGroup  // the workers of placements
	ctx       context.Context // ends with Close
	stop      context.CancelFunc

	applying   sync.Mutex // held while a document is applied; taken before mu
	mu         sync.Mutex // guards placements and their fields
	placements map[string]*placement
}

// Open reads the catalogue. It opens no connection and no namespace (see Start). From then on the host may
// use Member as its receiver of usage.
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
		reportDue:  make(chan struct{}, 1),
		asks:       make(chan ask, maxAsks),
		placements: make(map[string]*placement),
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	var docs []fleet.Doc
	if a.catalogue, docs, err = fleet.OpenCatalogue(filepath.Join(cfg.DataDir, CatalogueFile)); err != nil {
		return nil, err
	}
	for _, d := range docs {
		a.directory.Put(d)
		if d.IsPlacement() {
			a.placements[d.Namespace] = newPlacement(d)
		}
	}
	a.synced.Store(a.catalogue.Number() > 0)
	a.member, err = fleet.NewMember(fleet.MemberConfig{
		ControlPlane: cfg.ControlPlane,
		Credential:   cfg.Credential,
		Join:         fleet.JoinRequest{Address: cfg.Address, Raft: raftAddress(cfg.Transport), Version: cfg.Version, Store: cfg.Store},
		Trusted:      a.catalogue.Trusted(),
		Certificate:  cfg.Certificate,
		HTTP:         cfg.HTTP,
		Now:          cfg.Now,
		Logger:       cfg.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, a.catalogue.Close())
	}
	if cfg.Transport != nil {
		cfg.Transport.Handle(callDocuments, a.answerDocuments)
	}
	return a, nil
}

// raftAddress returns the address at which other hosts reach the Raft members of this one; "" = nowhere.
func raftAddress(t *transport.Transport) string {
	if t == nil {
		return ""
	}
	return t.Address()
}

// Member returns this host's membership in the control plane.
func (a *Agent) Member() *fleet.Member { return a.member }

// Start opens on h the namespaces of the catalogue, and follows the control plane from then on. It returns
// once each namespace was opened or has failed for the first time. It does not wait for the control plane.
// Start is called once.
func (a *Agent) Start(ctx context.Context, h *host.Host) error {
	a.host = h
	if err := a.logUnknownData(); err != nil {
		return err
	}
	a.mu.Lock()
	tried := make([]<-chan struct{}, 0, len(a.placements))
	for _, p := range a.placements {
		tried = append(tried, p.tried)
		a.ensureWorker(p)
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
			After: a.catalogue.Number(), Keep: a.persist, OnDoc: a.applyDoc, OnNumber: a.markSynced,
		})
		var other *fleet.SupersededError
		switch {
		case errors.As(err, &other):
			a.yieldTo(other)
		case err != nil:
			a.cfg.Logger.Error("this host no longer follows the control plane", "error", err)
		}
	})
	a.running.Go(a.reportLoop)
	a.running.Go(a.askLoop)
	return nil
}

// Close stops following the control plane and waits for the changes in progress. The namespaces stay open,
// because the host closes them.
func (a *Agent) Close() error {
	a.stop()
	a.running.Wait()
	a.changes.Wait()
	a.member.Close()
	return a.catalogue.Close()
}

// yieldTo closes all namespaces, because the control plane has given the store to another process or host. If
// both served the namespaces, their histories would diverge, and this process would acknowledge writes that
// the other one never sees. The process stays up and answers 503, so that a supervisor that restarts it does
// not fence the other one in turn.
func (a *Agent) yieldTo(other *fleet.SupersededError) {
	a.cfg.Logger.Error("this process closes its namespaces: another process has its place", "address", a.cfg.Address, "store", a.cfg.Store,
		"other_address", other.Address, "other_store", other.Store, "error", other)
	a.stop()
	a.changes.Wait()
	for _, ns := range a.host.Namespaces() {
		if err := a.host.Shut(context.Background(), ns); err != nil {
			a.cfg.Logger.Error("a namespace did not close cleanly", "namespace", ns, "error", err)
		}
	}
}

// markSynced records that every existing document was received.
func (a *Agent) markSynced(int64) {
	a.synced.Store(true)
	if !a.reported.Load() {
		a.Notify()
	}
}

// logUnknownData logs the data of namespaces without a document. The agent leaves such data alone, because it
// may be the last copy.
func (a *Agent) logUnknownData() error {
	all, err := a.host.OnDisk()
	if err != nil {
		return err
	}
	for _, ns := range all {
		if _, known := a.placements[string(ns)]; !known {
			a.cfg.Logger.Warn("the data directory holds a namespace that the catalogue lacks; the host neither opens nor deletes it", "namespace", ns)
		}
	}
	return nil
}

// persist stores messages, without refused documents, before the agent acts on them, because after a
// restart only the catalogue is known.
func (a *Agent) persist(messages ...fleet.Message) error {
	kept := make([]fleet.Message, 0, len(messages))
	newest := map[string]int64{} // generations of the placements in messages, on which the agent does not act yet
	for _, m := range messages {
		if len(m.JWKS) > 0 {
			a.passes.forget()
		}
		if len(m.Doc) > 0 {
			var d fleet.Doc
			if err := json.Unmarshal(m.Doc, &d); err != nil {
				return fmt.Errorf("document %d: %w", m.Number, err)
			}
			if d.Generation < newest[d.Namespace] || a.refusal(d) != "" {
				continue
			}
			if d.IsPlacement() {
				newest[d.Namespace] = d.Generation
			}
		}
		kept = append(kept, m)
	}
	return a.catalogue.Put(kept...)
}

// refusal returns the reason why a document is not acted on, or "" if it is. A document of an older
// generation than the known one was made without knowledge of a later decision. Acting on it could open a
// namespace on two hosts, and they would diverge.
func (a *Agent) refusal(d fleet.Doc) string {
	// Without an id there is no stream yet, and the catalogue's documents were checked before.
	if id := a.member.ID(); id != "" && d.IsPlacement() && d.Desired == fleet.Open && !a.names(d, id) {
		return "it places the namespace on other hosts"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.placements[d.Namespace]; p != nil && d.Generation < p.doc.Generation {
		return "it is of a generation before one that was seen"
	}
	return ""
}

// applyDoc acts on a document. New keys take effect at once; opening or deleting the namespace waits for a
// slot.
func (a *Agent) applyDoc(d fleet.Doc) error {
	if reason := a.refusal(d); reason != "" {
		a.cfg.Logger.Warn("the host refuses a document", "reason", reason,
			"namespace", d.Namespace, "document", d.Number, "generation", d.Generation)
		return nil
	}
	if !d.IsPlacement() {
		a.applyKeys(d)
		return nil
	}
	a.applying.Lock() // a document from another host may come at the same time as one of the stream
	defer a.applying.Unlock()
	held := a.directory.Hold(d.Namespace) != ""
	if !a.directory.Put(d) {
		return nil
	}
	a.recheck(d)
	if held && d.Hold == "" {
		a.host.StartsResume(tenancy.NamespaceID(d.Namespace))
	}
	a.mu.Lock()
	p := a.placements[d.Namespace]
	if p == nil {
		p = newPlacement(d)
		a.placements[d.Namespace] = p
	}
	p.setDoc(d)
	a.ensureWorker(p)
	a.mu.Unlock()
	a.Notify()
	return a.forgetGone()
}

// StartsHeld reports whether the newest document of a namespace wants no job to start. While the control plane is away,
// that is the document of the catalogue.
func (a *Agent) StartsHeld(ns tenancy.NamespaceID) bool { return a.directory.Hold(string(ns)) != "" }

// applyKeys acts on a document of keys or tokens.
func (a *Agent) applyKeys(d fleet.Doc) {
	if a.directory.Put(d) {
		a.recheck(d)
	}
}

// recheck ends the waiting polls that use keys which a document has removed: in its namespace, or for tokens in all
// namespaces of its organisation.
func (a *Agent) recheck(d fleet.Doc) {
	if d.Kind != fleet.KindTokens {
		a.host.Recheck(tenancy.NamespaceID(d.Namespace))
		return
	}
	var all []tenancy.NamespaceID
	a.mu.Lock()
	for ns, p := range a.placements {
		if p.doc.Org == d.Org {
			all = append(all, tenancy.NamespaceID(ns))
		}
	}
	a.mu.Unlock()
	for _, ns := range all {
		a.host.Recheck(ns)
	}
}

// forgetGone forgets the oldest deleted namespaces beyond MaxGone.
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
