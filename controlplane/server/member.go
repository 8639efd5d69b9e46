package server

import (
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/resourceid"
	"github.com/corvo/corvo/tenancy/token"
)

// Bounds and prefixes of the usage that members send.
const (
	maxUsageBody  = store.MaxAsideFrame
	shardStream   = "shard/"
	gatewayStream = "gateway/"
)

// join exchanges a fleet credential for a service token, and for a gateway also for the token that it
// presents to hosts. It records the member's addresses, version and store if they have changed, before the member
// gets a token, so that two hosts never have one store.
func (s *Server) join(w http.ResponseWriter, r *http.Request) error {
	var body wire.JoinRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	credential, ok := s.store.Credential(q.who.KeyID)
	if !ok {
		return api.Errorf(api.Unauthorized, "the credential was revoked this moment")
	}
	host, err := s.store.Host(r.Context(), credential.Owner)
	if err != nil {
		return err
	}
	if host.ID != credential.Owner || host.Kind != credential.Kind {
		return fmt.Errorf("credential %s is of kind %q and owner %s, which is a %q", credential.ID, credential.Kind, credential.Owner, host.Kind)
	}
	var f faults
	f.member(body, host.Kind)
	if err := f.err(); err != nil {
		return err
	}
	if err := s.cfg.Authority.refresh(r.Context()); err != nil { // because only a root that the member trusts may sign
		return err
	}
	s.completeTrust(&body)
	known, err := s.store.MemberRootsOf(r.Context(), host.ID)
	if err != nil {
		return err
	}
	run := body.Run
	if !slices.Equal(body.Roots, known.Trusted) || body.Issuer != known.Issuer || body.Address != host.Address || body.Raft != host.Raft || body.Version != host.Binary || body.Store != host.Store || run != host.Run || run == 0 && body.Store != "" {
		q.meta.Idempotency = nil // each process that starts gets a number of its own
		joined, err := propose[*store.JoinHostResult](r.Context(), s, &store.JoinHost{
			Meta: q.meta, Id: host.ID, Address: body.Address, Raft: body.Raft, Version: body.Version, Store: body.Store, Run: run,
			Roots: body.Roots, Issuer: body.Issuer,
		})
		if err != nil {
			return err
		}
		run = joined.Run
	}
	s.cfg.Observations.Touch(host.ID)
	return s.admit(w, host, body, run)
}

// completeTrust sets the roots of a member that gets its first certificate to those of the answer, because a member
// that keeps this certificate keeps these roots with it.
func (s *Server) completeTrust(body *wire.JoinRequest) {
	if body.CSR != nil && body.Issuer == "" {
		body.Roots, body.Issuer = s.cfg.Authority.Bundle().Fingerprints(), s.cfg.Authority.Fingerprint()
	}
}

// member validates what a member reports about itself: addresses, store, run and version. Only a host has an
// address. Therefore an address from a gateway, or none from a host, shows that the process was started with
// a credential of the other kind.
func (f *faults) member(r wire.JoinRequest, kind keyring.Kind) {
	u, err := url.Parse(r.Address)
	switch {
	case kind == keyring.Gateway && r.Address != "":
		f.add("address", "is set: the credential is a gateway's; start a host with one of kind host, from POST /cloud/v1/hosts")
	case kind == keyring.Gateway:
	case r.Address == "":
		f.add("address", "is missing: the credential is a host's; start a gateway with one of kind gateway, from POST /cloud/v1/hosts")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(r.Address) > store.MaxAddress:
		f.add("address", "%s is not a base URL such as http://10.0.0.7:8080", text.Quote(r.Address))
	}
	switch { // a process with a credential of the other kind is told only about its address
	case kind == keyring.Gateway && r.Address == "" && (r.Store != "" || r.Run != 0):
		f.add("store", "is set: only a host has one")
	case kind == keyring.Host && r.Address != "" && !resourceid.Has(r.Store, wire.StorePrefix):
		f.add("store", "%s is no id of a store, %s and 26 characters: start a host that names its own", text.Quote(r.Store), wire.StorePrefix)
	}
	switch {
	case r.Raft == "":
	case kind == keyring.Gateway:
		f.add("raft", "is set: only a host has Raft members")
	case len(r.Raft) > store.MaxRaftAddress:
		f.add("raft", "has %d bytes: at most %d are allowed", len(r.Raft), store.MaxRaftAddress)
	case !isHostPort(r.Raft):
		f.add("raft", "%s is not host:port, such as 10.0.0.7:8083: correct the host's --raft-advertise", text.Quote(r.Raft))
	}
	if len(r.Roots) > certificate.MaxRoots || (len(r.Roots) == 0) != (r.Issuer == "") {
		f.add("roots", "has %d roots with the issuer %s: a member with a certificate names 1 to %d roots and its issuer", len(r.Roots), text.Quote(r.Issuer), certificate.MaxRoots)
	}
	for _, root := range append([]string{r.Issuer}, r.Roots...) {
		if got, err := certificate.ParseFingerprint(root); root != "" && (err != nil || got != root) {
			f.add("roots", "%s is not the SHA-256 of a root in lower case", text.Quote(root))
		}
	}
	if r.Format < wire.DocFormat {
		f.add("format", "is %d, the highest format of documents that this process reads, and the control plane's have format %d: upgrade this process", r.Format, wire.DocFormat)
	}
	if r.Run < 0 {
		f.add("run", "is %d: it is the number of an earlier answer, or 0", r.Run)
	}
	if len(r.Version) > store.MaxVersion {
		f.add("version", "has %d bytes: at most %d are allowed", len(r.Version), store.MaxVersion)
	}
}

// isHostPort reports whether an address has a host and the number of a port.
func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && notNumber == nil && n > 0
}

// admit writes a service token, for a gateway a second one that the gateway presents to hosts, and a certificate if
// the member asks for one. The audiences of the tokens differ, so that a host cannot use the second token at the
// control plane.
func (s *Server) admit(w http.ResponseWriter, host fleet.Host, body wire.JoinRequest, run int64) error {
	key, err := s.cfg.Signer.Key()
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	sign := func(audience string) (string, error) {
		return token.Sign(key, token.Claims{Subject: host.ID, Role: string(roleOf(host.Kind)), Audience: audience, Run: run}, now)
	}
	_, jwks := s.cfg.Signer.Trusted()
	roots := s.cfg.Authority.current.Load()
	answer := wire.JoinAnswer{ID: host.ID, Run: run, ExpiresAt: now.Add(token.Lifetime).UTC(), JWKS: jwks, Roots: roots.bundle}
	if answer.Token, err = sign(token.ControlPlane); err != nil {
		return err
	}
	if host.Kind == keyring.Gateway {
		if answer.HostToken, err = sign(token.Hosts); err != nil {
			return err
		}
	}
	if body.CSR != nil {
		who := certificate.Identity{Kind: kindOf(host.Kind), ID: host.ID, Store: body.Store}
		if answer.Certificate, err = roots.signer.Issue(body.CSR, who, nil, now, s.cfg.Rand); err != nil {
			return err
		}
	}
	return serve.WriteJSON(w, http.StatusOK, answer)
}

// kindOf returns the kind of the certificate of a registered member.
func kindOf(kind keyring.Kind) certificate.Kind {
	if kind == keyring.Host {
		return certificate.Host
	}
	return certificate.Gateway
}

// report takes the report of a member: the cells of a host, and when keys were last used there. A gateway has
// no cells. Only the leader takes reports, because its reconciler decides by them. It takes the times of last use also
// from a report that it answers with a request for a full one.
func (s *Server) report(w http.ResponseWriter, r *http.Request, m member) error {
	term, leads := s.store.LeadingTerm()
	if !leads {
		return s.errNotLeader()
	}
	var body wire.Report
	if err := serve.DecodeJSON(r, &body); err != nil {
		return err
	}
	var f faults
	f.report(&body, m.host.Kind)
	if err := f.err(); err != nil {
		return err
	}
	now := s.cfg.Now().Unix()
	for id, unix := range body.LastUsed {
		// A credential that was revoked meanwhile is skipped, and so is one of an operator, a host or a
		// gateway.
		if c, ok := s.store.Credential(id); ok && (c.Kind == keyring.Namespace || c.Kind == keyring.Org) {
			s.lastUsed.mark(id, min(unix, now))
		}
	}
	var answer wire.ReportAnswer
	switch {
	case m.host.Kind == keyring.Gateway && body.Usage != nil:
		s.cfg.Observations.ObserveGateway(m.host.ID, *body.Usage)
	case m.host.Kind == keyring.Host:
		var err error
		if answer.Full, err = s.cfg.Observations.Observe(term, m.host.ID, m.run, body); err != nil {
			return err
		}
	}
	return serve.WriteJSON(w, http.StatusOK, answer)
}

// cellStates lists the valid states of a cell.
var cellStates = map[string]bool{wire.Opening: true, wire.Opened: true, wire.Closing: true, wire.Gone: true, wire.Failed: true, wire.Waiting: true}

func (f *faults) report(r *wire.Report, kind keyring.Kind) {
	if kind == keyring.Host && (r.Sequence < 1 || r.Base < 0 || r.Base >= r.Sequence) {
		f.add("sequence", "is %d and base is %d: a host numbers its reports from 1, and the base is an earlier one or 0", r.Sequence, r.Base)
	}
	if len(r.LastUsed) > wire.MaxReportKeys {
		f.add("last_used", "has %d entries: at most %d are taken", len(r.LastUsed), wire.MaxReportKeys)
	}
	if r.Capacity != nil && !r.Capacity.Valid() {
		f.add("capacity", "is none: it has at most as many free bytes as bytes, a bound on cells above 0, and percents of at most 100")
	}
	if r.Usage != nil && (kind != keyring.Gateway || r.Usage.UntilNs <= 0) {
		f.add("usage", "is not a gateway's claim: it needs a time, and a host's claims are in its cells")
	}
	if kind != keyring.Host && len(r.Cells) > 0 {
		f.add("cells", "are given: only a host has cells")
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Namespace == "" || !cellStates[c.State] || c.Generation < 0 {
			f.add(fmt.Sprintf("cells[%d]", i), "is not a cell: it needs a namespace, a generation and a known state")
		}
		if len(c.Incarnations) > store.MaxShards {
			f.add(fmt.Sprintf("cells[%d].incarnations", i), "has %d entries: a namespace has at most %d shards", len(c.Incarnations), store.MaxShards)
		}
		if len(c.Groups) > store.MaxShards {
			f.add(fmt.Sprintf("cells[%d].groups", i), "has %d entries: a namespace has at most %d shards", len(c.Groups), store.MaxShards)
		}
		for j, g := range c.Groups {
			if g.Usage != nil && (g.Usage.UntilNs <= 0 || g.Usage.Last > math.MaxInt64) {
				f.add(fmt.Sprintf("cells[%d].groups[%d].usage", i, j), "is not a claim: it needs a time, and a number of a row of at most 63 bits")
			}
			if number := len(g.Voters) + len(g.Learners); number > wire.MaxReportMembers {
				f.add(fmt.Sprintf("cells[%d].groups[%d]", i, j), "has %d members: at most %d are taken", number, wire.MaxReportMembers)
			}
		}
		c.Error = wire.CutReportError(c.Error)
	}
}

// readUsage writes the number of the last row of a source's usage that was applied or set aside.
func (s *Server) readUsage(w http.ResponseWriter, r *http.Request, m member) error {
	query := r.URL.Query()
	source := billing.Source{Namespace: query.Get("namespace"), Stream: query.Get("stream"), Incarnation: query.Get("incarnation")}
	if source.Namespace == "" || source.Stream == "" || source.Incarnation == "" {
		return api.Errorf(api.ValidationError, "a source of usage has a namespace, a stream and an incarnation")
	}
	if err := s.maySend(r, m, source); err != nil {
		return err
	}
	last, err := s.store.LastUsage(r.Context(), source)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, wire.UsageAnswer{Last: last})
}

// takeUsage applies a frame of usage.
func (s *Server) takeUsage(w http.ResponseWriter, r *http.Request, m member) error {
	var frame billing.Frame
	if err := serve.DecodeJSON(r, &frame); err != nil {
		return err
	}
	last, err := s.applyUsage(r, m, frame)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, wire.UsageAnswer{Last: last})
}

// applyUsage applies a frame. It returns the number of the last row of the source's usage that is then
// applied.
func (s *Server) applyUsage(r *http.Request, m member, frame billing.Frame) (uint64, error) {
	if err := frame.Validate(); err != nil {
		return 0, api.Wrap(err, api.ValidationError, err.Error())
	}
	if frame.To > math.MaxInt64 {
		return 0, api.Errorf(api.ValidationError, "to: it is at most %d", int64(math.MaxInt64))
	}
	if err := s.maySend(r, m, frame.Source); err != nil {
		return 0, err
	}
	hash, err := hex.DecodeString(frame.Hash)
	if err != nil {
		return 0, fmt.Errorf("a valid frame has the hash %q: %w", frame.Hash, err)
	}
	o := &store.ApplyUsage{
		Meta:      &store.Meta{Principal: m.host.ID},
		Namespace: frame.Namespace, Stream: frame.Stream, Incarnation: frame.Incarnation, From: frame.From, To: frame.To,
		RowsSha256: hash,
	}
	for _, row := range frame.Rows {
		o.Rows = append(o.Rows, fromRow(row))
	}
	if err := s.store.AheadRoom(r.Context(), o, s.cfg.Now()); err != nil {
		return 0, err
	}
	applied, err := propose[*store.ApplyUsageResult](r.Context(), s, o)
	if err != nil {
		return 0, err
	}
	if applied.Ahead > 0 {
		s.cfg.Logger.Error("usage ahead of the control plane's clock was set aside: it is not charged; set the clock of the sender",
			"namespace", frame.Namespace, "stream", frame.Stream, "first_row", frame.From, "last_row", frame.To, "rows_ahead", applied.Ahead, "host", m.host.ID)
	}
	return applied.Last, nil
}

// maySend refuses usage that the member may not report. A host reports for the shards of namespaces with a member on
// one of its stores, also if that member is leaving, because it may lead a shard until the last moment. A gateway
// reports for the requests of any namespace, in its own stream.
func (s *Server) maySend(r *http.Request, m member, source billing.Source) error {
	if m.host.Kind == keyring.Gateway {
		if source.Stream != gatewayStream+m.host.ID {
			return api.Errorf(api.Forbidden, "a gateway reports as %s%s only", gatewayStream, m.host.ID)
		}
		return nil
	}
	if !strings.HasPrefix(source.Stream, shardStream) {
		return api.Errorf(api.Forbidden, "a host reports as %s<n>, and as nothing else", shardStream)
	}
	ns, err := s.store.Namespace(r.Context(), "", source.Namespace)
	if api.CodeOf(err) == api.NotFound || err == nil && !ns.On(m.host.ID) {
		return api.Errorf(api.Forbidden, "namespace %s has no member on %s", text.Quote(source.Namespace), m.host.Name)
	}
	return err
}
