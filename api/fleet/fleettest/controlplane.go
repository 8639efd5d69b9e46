// Package fleettest is a control plane in memory for tests of hosts and gateways. It joins members,
// streams signed documents, takes reports and applies usage over real HTTP, and it fails on request. It
// shares no code with the real one in controlplane/server.
package fleettest

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

// Heartbeat is the time between heartbeats of the streams. It is shorter than in production, so that tests
// wait less.
const Heartbeat = 20 * time.Millisecond

// ControlPlane is a control plane in memory. It is safe for concurrent use.
type ControlPlane struct {
	URL string
	tb  testing.TB
	mux *http.ServeMux

	mu       sync.Mutex
	changed  chan struct{} // closed when a field below has changed
	keys     []token.Key   // trusted; the last one signs
	root     *certificate.Root
	hidden   int // number of the last keys that the streams do not announce
	number   int64
	docs     map[string]published // the newest, by subject
	whole    map[string]fleet.Doc // as they were given to Put, by namespace
	raw      []fleet.Message      // lines that Inject sends as they are
	members  map[string]member    // by credential
	runs     map[string]int64     // of the newest process, by member
	stores   map[string]string    // the one of the last join, by member
	rafts    map[string]string    // the Raft address of the last join, by member
	down     bool
	silent   bool
	ends     int // how often End closed all streams
	lifetime time.Duration
	joins    int
	issued   int                 // certificates
	refused  int                 // refused joins
	streams  int                 // opened so far
	reports  []fleet.Report      // each with all cells of its host
	reported map[string]reported // the last report, by host
	last     map[billing.Source]uint64
	used     map[string]billing.Quantities // by namespace
	lose     int                           // number of answers to frames to drop
}

type member struct {
	id   string
	kind keyring.Kind
}

// reported is the last report of a host.
type reported struct {
	run, sequence int64
	cells         map[string]fleet.CellReport // by namespace
}

// New starts a control plane on plain HTTP and stops it at the end of the test.
func New(tb testing.TB) *ControlPlane {
	tb.Helper()
	return start(tb, false)
}

// NewTLS starts a control plane as New does, but over TLS. Members need the fingerprint that Root returns.
func NewTLS(tb testing.TB) *ControlPlane {
	tb.Helper()
	return start(tb, true)
}

func start(tb testing.TB, secure bool) *ControlPlane {
	tb.Helper()
	c := &ControlPlane{
		tb: tb, changed: make(chan struct{}), lifetime: token.Lifetime, root: NewRoot(tb, time.Now()),
		docs: map[string]published{}, whole: map[string]fleet.Doc{}, members: map[string]member{}, runs: map[string]int64{}, stores: map[string]string{}, rafts: map[string]string{},
		reported: map[string]reported{}, last: map[billing.Source]uint64{}, used: map[string]billing.Quantities{},
	}
	c.Rotate(false)
	mux := http.NewServeMux()
	c.mux = mux
	mux.HandleFunc("POST "+fleet.JoinPath, c.join)
	mux.HandleFunc("GET "+fleet.DocsPath, c.member(c.stream))
	mux.HandleFunc("POST "+fleet.ReportPath, c.member(c.report))
	mux.HandleFunc("GET "+fleet.UsagePath, c.member(c.lastUsage))
	mux.HandleFunc("POST "+fleet.UsagePath, c.member(c.applyUsage))
	mux.HandleFunc("GET "+fleet.JWKSPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(c.Trusted().JWKS()) })
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.isDown() {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		mux.ServeHTTP(w, r)
	}))
	if secure {
		// Not StartTLS, which would show a certificate of its own.
		held := Certified(tb, c.root, certificate.Identity{Kind: certificate.ControlPlane, ID: "control-1"}, time.Now(), nil)
		server.Listener = tls.NewListener(server.Listener, fleet.ControlPlaneServer(held))
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes
	}
	server.Start()
	c.URL = server.URL
	if secure {
		c.URL = "https" + strings.TrimPrefix(c.URL, "http")
	}
	tb.Cleanup(func() {
		c.SetDown(true) // ends the streams
		server.Close()
	})
	return c
}

// Root returns the fingerprint of the root, for certificate.Config.FleetRoot.
func (c *ControlPlane) Root() string { return c.root.Fingerprint() }

// change calls f under the lock and wakes the streams.
func (c *ControlPlane) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// read calls f under the lock.
func read[T any](c *ControlPlane, f func() T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f()
}

// Handle serves another path, such as one of the cloud API.
func (c *ControlPlane) Handle(pattern string, h http.HandlerFunc) { c.mux.HandleFunc(pattern, h) }

// Register creates a host or gateway and returns its credential.
func (c *ControlPlane) Register(id string, kind keyring.Kind) (credential string) {
	c.tb.Helper()
	credential, _, _, err := keyring.New(rand.Reader, kind)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.change(func() { c.members[credential] = member{id, kind} })
	return credential
}

// PutText signs and publishes the text of a document as it stands, such as one of an earlier version. The document's
// number must be above all earlier ones.
func (c *ControlPlane) PutText(text string) {
	c.tb.Helper()
	var d fleet.Doc
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		c.tb.Fatal(err)
	}
	c.change(func() {
		c.number = d.Number
		c.docs[subject(d)] = published{c.signText(d.Number, []byte(text)), d, ""}
	})
}

// Inject sends lines on all open streams, whatever their contents.
func (c *ControlPlane) Inject(lines ...fleet.Message) {
	c.change(func() { c.raw = append(c.raw, lines...) })
}

// Rotate makes a new signing key. If quiet is set, only fleet.JWKSPath has the key: the streams do not
// announce it, and answers to joins lack it.
func (c *ControlPlane) Rotate(quiet bool) {
	k, err := token.NewKey(rand.Reader)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.change(func() {
		c.keys = append(c.keys, k)
		c.hidden = 0
		if quiet {
			c.hidden = 1
		}
	})
}

// Retire removes all keys but the signing one.
func (c *ControlPlane) Retire() { c.change(func() { c.keys, c.hidden = c.keys[len(c.keys)-1:], 0 }) }

// SetDown breaks all present and future connections, until it is set to false.
func (c *ControlPlane) SetDown(down bool) { c.change(func() { c.down = down }) }

// End closes all open streams without an error, as the real control plane does when a token expires.
func (c *ControlPlane) End() { c.change(func() { c.ends++ }) }

// SetSilent keeps streams open and sends nothing on them.
func (c *ControlPlane) SetSilent(silent bool) { c.change(func() { c.silent = silent }) }

// SetLifetime sets the lifetime of the tokens of future joins.
func (c *ControlPlane) SetLifetime(d time.Duration) { c.change(func() { c.lifetime = d }) }

// LoseAnswers applies the next n frames and breaks their connections instead of answering.
func (c *ControlPlane) LoseAnswers(n int) { c.change(func() { c.lose = n }) }

// Trusted returns the published keys.
func (c *ControlPlane) Trusted() token.Set { return read(c, func() token.Set { return c.trusted(0) }) }

// trusted returns the keys without the last hidden ones.
func (c *ControlPlane) trusted(hidden int) token.Set {
	var public []ed25519.PublicKey
	for _, k := range c.keys[:len(c.keys)-hidden] {
		public = append(public, k.Public())
	}
	return token.NewSet(public...)
}

func (c *ControlPlane) isDown() bool { return read(c, func() bool { return c.down }) }

// Joins counts the answered joins.
func (c *ControlPlane) Joins() int { return read(c, func() int { return c.joins }) }

// Issued counts the issued certificates.
func (c *ControlPlane) Issued() int { return read(c, func() int { return c.issued }) }

// Store returns the store that a member last joined with; "" = none.
func (c *ControlPlane) Store(id string) string {
	return read(c, func() string { return c.stores[id] })
}

// Raft returns the Raft address that a member last joined with; "" = none.
func (c *ControlPlane) Raft(id string) string { return read(c, func() string { return c.rafts[id] }) }

// Refused counts the refused joins.
func (c *ControlPlane) Refused() int { return read(c, func() int { return c.refused }) }

// Streams counts the streams of documents that were opened.
func (c *ControlPlane) Streams() int { return read(c, func() int { return c.streams }) }

// Reports returns all reports, each with all cells that its host had then.
func (c *ControlPlane) Reports() []fleet.Report {
	return read(c, func() []fleet.Report { return slices.Clone(c.reports) })
}

// Used returns the applied usage of a namespace.
func (c *ControlPlane) Used(namespace string) billing.Quantities {
	return read(c, func() billing.Quantities { return c.used[namespace] })
}

// Sources counts the sources that have sent usage.
func (c *ControlPlane) Sources() int { return read(c, func() int { return len(c.last) }) }

func (c *ControlPlane) join(w http.ResponseWriter, r *http.Request) {
	var request fleet.JoinRequest
	if !decode(w, r, &request) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[bearer(r)]
	if !ok {
		c.refused++
		refuse(w, api.Errorf(api.Unauthorized, "the credential is not valid"))
		return
	}
	if request.Run == 0 && request.Store != "" {
		c.runs[m.id]++
		request.Run = c.runs[m.id]
		c.stores[m.id] = request.Store
	}
	if request.Run < c.runs[m.id] {
		c.refused++
		refuse(w, fleet.Superseded("a newer process runs", c.stores[m.id], "http://newer"))
		return
	}
	c.joins++
	c.rafts[m.id] = request.Raft
	key := c.keys[len(c.keys)-1]
	sign := func(role tenancy.Role, audience string) string {
		// The token is valid by the real clock. ExpiresAt alone makes it look shorter.
		text, err := token.Sign(key, token.Claims{Subject: m.id, Role: string(role), Audience: audience, Run: request.Run}, time.Now())
		if err != nil {
			panic(err) // there are a key and all claims
		}
		return text
	}
	a := fleet.JoinAnswer{ID: m.id, Run: request.Run, ExpiresAt: time.Now().Add(c.lifetime), JWKS: c.trusted(c.hidden).JWKS(), Roots: bundleOf(c.root)}
	if m.kind == keyring.Gateway {
		a.Token, a.HostToken = sign(tenancy.GatewayMember, token.ControlPlane), sign(tenancy.GatewayMember, token.Hosts)
	} else {
		a.Token = sign(tenancy.HostMember, token.ControlPlane)
	}
	if request.CSR != nil {
		who := certificate.Identity{Kind: certificate.Host, ID: m.id, Store: request.Store}
		if m.kind == keyring.Gateway {
			who.Kind = certificate.Gateway
		}
		der, err := c.root.Issue(request.CSR, who, nil, time.Now(), rand.Reader)
		if err != nil {
			refuse(w, err.(*api.Error))
			return
		}
		a.Certificate = der
		c.issued++
	}
	answer(w, a)
}

// member authenticates requests by a service token for the control plane.
func (c *ControlPlane) member(h func(http.ResponseWriter, *http.Request, token.Claims)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		claims, err := c.Trusted().Verify(bearer(r), token.ControlPlane, time.Now())
		if err != nil {
			refuse(w, err.(*api.Error))
			return
		}
		if claims.Run < read(c, func() int64 { return c.runs[claims.Subject] }) {
			refuse(w, fleet.Superseded("a newer process runs", read(c, func() string { return c.stores[claims.Subject] }), "http://newer"))
			return
		}
		h(w, r, claims)
	}
}

// stream sends the documents that a follower lacks, and then heartbeats.
func (c *ControlPlane) stream(w http.ResponseWriter, r *http.Request, who token.Claims) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		refuse(w, api.Errorf(api.ValidationError, "after: %v", err))
		return
	}
	raw, ends, told := 0, 0, ""
	c.change(func() { raw, ends = len(c.raw), c.ends; c.streams++ })
	beat := time.NewTicker(Heartbeat)
	defer beat.Stop()
	flush := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	for {
		var batch []fleet.Message
		c.mu.Lock()
		changed, down, silent, ended := c.changed, c.down, c.silent, c.ends != ends
		if !silent {
			batch = append(c.news(after, who), c.raw[raw:]...)
			raw = len(c.raw)
			after = max(after, c.number)
			jwks := string(c.trusted(c.hidden).JWKS())
			beat := fleet.Message{Number: c.number}
			if jwks != told {
				beat.JWKS, told = json.RawMessage(jwks), jwks
				roots := bundleOf(c.root)
				beat.Roots = &roots
			}
			batch = append(batch, beat)
		}
		c.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler)
		}
		if ended {
			return
		}
		for _, m := range batch {
			if lines.Encode(m) != nil {
				return // the follower is gone
			}
		}
		if flush.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-beat.C:
		case <-r.Context().Done():
			return
		}
	}
}

// report takes full reports of one part, and deltas on the last report of the same process.
func (c *ControlPlane) report(w http.ResponseWriter, r *http.Request, who token.Claims) {
	var report fleet.Report
	if !decode(w, r, &report) {
		return
	}
	full := false
	c.change(func() {
		was := c.reported[who.Subject]
		if full = report.Base != 0 && (report.Base != was.sequence || who.Run != was.run); full {
			return
		}
		now := reported{who.Run, report.Sequence, map[string]fleet.CellReport{}}
		if report.Base != 0 {
			maps.Copy(now.cells, was.cells)
		}
		for _, cell := range report.Cells {
			now.cells[cell.Namespace] = cell
		}
		for _, ns := range report.Ended {
			delete(now.cells, ns)
		}
		c.reported[who.Subject] = now
		report.Cells = slices.SortedFunc(maps.Values(now.cells), func(a, b fleet.CellReport) int { return cmp.Compare(a.Namespace, b.Namespace) })
		c.reports = append(c.reports, report)
	})
	answer(w, fleet.ReportAnswer{Full: full})
}

func (c *ControlPlane) lastUsage(w http.ResponseWriter, r *http.Request, _ token.Claims) {
	q := r.URL.Query()
	source := billing.Source{Namespace: q.Get("namespace"), Stream: q.Get("stream"), Incarnation: q.Get("incarnation")}
	answer(w, fleet.UsageAnswer{Last: read(c, func() uint64 { return c.last[source] })})
}

// applyUsage applies a frame only if it follows the last one.
func (c *ControlPlane) applyUsage(w http.ResponseWriter, r *http.Request, _ token.Claims) {
	var f billing.Frame
	if !decode(w, r, &f) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.last[f.Source]
	if err := f.Validate(); err != nil {
		refuse(w, api.Errorf(api.ValidationError, "%w", err))
		return
	}
	if f.From > last+1 {
		refuse(w, api.Errorf(api.StateConflict, "the frame begins at %d and %d was the last", f.From, last))
		return
	}
	if f.From == last+1 {
		sum := c.used[f.Namespace]
		for _, row := range f.Rows {
			if err := sum.Add(row.Quantities()); err != nil {
				panic(err) // no test uses that much
			}
		}
		c.used[f.Namespace], c.last[f.Source] = sum, f.To
	}
	if c.lose > 0 {
		c.lose--
		panic(http.ErrAbortHandler)
	}
	answer(w, fleet.UsageAnswer{Last: c.last[f.Source]})
}

func bearer(r *http.Request) string {
	const scheme = "Bearer "
	a := r.Header.Get("Authorization")
	return a[min(len(scheme), len(a)):]
}

func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		refuse(w, api.Errorf(api.ParseError, "%w", err))
	}
	return err == nil
}

func answer(w http.ResponseWriter, v any) { write(w, http.StatusOK, v) }

func refuse(w http.ResponseWriter, e *api.Error) {
	write(w, e.Code.Status(), map[string]any{"error": e.Message, "code": e.Code, "details": e.Details})
}

// write ignores errors, because they mean that the member is gone.
func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// Eventually waits until a condition is true. It fails the test after a minute, because a machine may stall
// for a while.
func Eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	deadline := time.Now().Add(time.Minute)
	for !so() {
		if time.Now().After(deadline) {
			tb.Fatalf("after a minute it is still not so that %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
