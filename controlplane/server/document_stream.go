package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

const (
	// docsPage is the number of documents read at once.
	docsPage = 100
	// writeLimit bounds the time that one message takes to send. A follower that does not read is
	// disconnected.
	writeLimit = 10 * time.Second
)

// stream sends documents to one follower.
type stream struct {
	*Server
	member
	ctx   context.Context
	out   *json.Encoder
	flush *http.ResponseController

	at    int64           // the follower has seen every document up to this number
	again bool            // the follower had documents before this stream
	sent  map[string]bool // namespaces that this stream sent with a member on the follower
	// given has the numbers of the keys and tokens that this stream sent and that the follower still has.
	given map[keysOf]int64
	jwks  string      // the JWKS that was sent last
	roots *fleetRoots // likewise
}

// docs streams documents to a host or gateway until its token expires, its credential is revoked, it is
// removed, a newer process of the host joins, the follower disconnects or stops reading, no leader can be
// reached, or the server drains. The leader refuses with STATE_CONFLICT a follower that has seen more than
// the newest document; other processes refuse that follower with LEADER_UNAVAILABLE. While the server drains,
// docs refuses every follower with UNHEALTHY.
func (s *Server) docs(w http.ResponseWriter, r *http.Request, m member) error {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if r.URL.Query().Get("after") == "" {
		after, err = 0, nil
	}
	if err != nil || after < 0 {
		return api.Errorf(api.ValidationError, "after must be the number of the client's newest document, or 0")
	}
	if newest, _ := s.store.Changes(); after > newest {
		if _, leads := s.store.LeadingTerm(); !leads {
			return s.errNotLeader() // only the leader knows that no other process has more
		}
		// Continuing would leave the follower with changes that this control plane never made.
		return api.Errorf(api.StateConflict, "you have seen document %d, and the newest here is %d: this control plane has lost changes", after, newest)
	}
	s.mu.Lock()
	if s.draining.Err() != nil {
		s.mu.Unlock()
		refused := api.Errorf(api.Unhealthy, "this control plane is shutting down: connect again")
		refused.RetryAfter = time.Second
		return refused
	}
	s.streams.Add(1)
	s.mu.Unlock()
	defer s.streams.Done()

	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil // the client does not read a body
	}
	f := &stream{
		Server: s, member: m, ctx: r.Context(), out: json.NewEncoder(w), flush: http.NewResponseController(w),
		at: after, again: after > 0, sent: map[string]bool{}, given: map[keysOf]int64{},
	}
	f.out.SetEscapeHTML(false)
	// The connection may carry other requests after this one, so the write deadline is removed.
	defer func() { _ = f.flush.SetWriteDeadline(time.Time{}) }()
	return f.run()
}

// ignoreNoLeader returns nil if err says that no leader can be reached, because that is no fault of this
// process; otherwise it returns err.
func ignoreNoLeader(err error) error {
	if api.CodeOf(err) == api.LeaderUnavailable {
		return nil
	}
	return err
}

// goneError reports that the follower no longer reads. The stream then ends without an error.
type goneError struct{ error }

func (f *stream) run() error {
	ticker := time.NewTicker(wire.HeartbeatEvery)
	defer ticker.Stop()
	for beat := true; ; {
		// The channel is read before the documents, so that a change made meanwhile wakes the next round.
		number, changed := f.store.Changes()
		err := f.catchUp(number)
		if err == nil && beat {
			err = f.heartbeat()
		}
		if errors.As(err, new(goneError)) || f.ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-f.ctx.Done():
			return nil
		case <-f.draining.Done():
			return nil
		case <-changed:
			beat = false
		case <-ticker.C:
			beat = true
			if ok, err := f.trusted(); err != nil || !ok {
				return err
			}
		}
	}
}

// trusted reports whether the follower's token and credential are still valid, and whether it is the newest process
// of its host, according to a state that has every acknowledged change.
func (f *stream) trusted() (bool, error) {
	if !f.cfg.Now().Before(f.expires) {
		return false, nil
	}
	f.cfg.Observations.Touch(f.host.ID)
	// A heartbeat says that the follower has every document. Without a leader nobody knows that, and the follower
	// connects to another process.
	if err := f.verify(f.ctx); err != nil {
		return false, ignoreNoLeader(err)
	}
	newest, err := f.store.Host(f.ctx, f.host.ID)
	if api.CodeOf(err) == api.NotFound {
		return false, nil // it was removed
	}
	if err != nil || f.member.run < newest.Run {
		return false, err
	}
	return f.mayJoin(f.ctx, f.host.ID)
}

// catchUp sends the documents up to number that the follower may see, and newer ones that the same reads
// return.
func (f *stream) catchUp(number int64) error {
	for f.at < number {
		docs, err := f.store.Docs(f.ctx, f.at, docsPage)
		if err != nil {
			return err
		}
		next := number
		for _, d := range docs {
			newer, err := f.pass(d)
			if err != nil {
				return err
			}
			f.at, next = d.Number, max(next, newer)
		}
		if len(docs) < docsPage {
			f.at = max(f.at, number)
		}
		number = next
	}
	return nil
}

// pass sends a document if the follower may see it. The keys and tokens that an open placement needs come before it,
// because the follower may not have them: it had no member of the namespace or the organisation before, or forgot them with
// the last one. Those with a number above the placement's come by themselves. Until then the follower lacks them, so pass
// returns the highest of these numbers, and no heartbeat is sent before that one.
func (f *stream) pass(d wire.Doc) (newer int64, err error) {
	if d.Kind != wire.KindPlacement {
		needed := f.host.Kind == keyring.Gateway
		if !needed {
			needed, err = f.store.HostNeeds(f.ctx, f.host.ID, d)
		}
		if err != nil || !needed {
			return 0, err
		}
		return 0, f.document(d)
	}
	mine, ok := f.share(d)
	if !ok {
		return 0, nil
	}
	if mine.Desired == wire.Open {
		needed, err := f.store.KeyDocs(f.ctx, mine.Namespace, mine.Org, func(kind, id string) int64 { return f.given[keysOf{kind, id}] })
		if err != nil {
			return 0, err
		}
		for _, k := range needed {
			if k.Number > mine.Number {
				newer = max(newer, k.Number)
			} else if err := f.document(k); err != nil {
				return 0, err
			}
		}
	}
	return newer, f.document(mine)
}

// keysOf is the subject of a document of keys or tokens: its kind, and the id of the namespace or organisation.
type keysOf struct{ kind, id string }

// share returns the placement as the follower may see it; ok is false if the follower may not see it. A
// gateway sees every placement. A host sees the placements of the namespaces with a member on one of its stores, also if
// that member is leaving. If a namespace had a member on the host and has none there now, the host receives a reduced
// document that says leave, or absent if the namespace is being deleted. share returns that document if this stream sent
// the namespace before. If only an earlier stream may have sent it, there are two conditions: the generation is above 1,
// because members change only with a new generation, and the namespace is not being deleted, because a deletion concerns
// the namespace's own hosts only. Without the two conditions every host would receive a document for every namespace
// that ever existed.
//
// While a member's role is Found, share returns nothing to other hosts, because no copy may be deleted before another
// one exists. Once the founding is recorded, the namespace gets a new document.
func (f *stream) share(d wire.Doc) (_ wire.Doc, ok bool) {
	founding := slices.ContainsFunc(d.Members, func(m wire.GroupMember) bool { return m.Role == wire.Found })
	switch {
	case f.host.Kind == keyring.Gateway:
		return d, true
	case slices.ContainsFunc(d.Members, func(m wire.GroupMember) bool { return m.Host == f.host.ID }):
		f.sent[d.Namespace] = true
		return d, true
	case founding, len(d.Members) == 0:
	case f.sent[d.Namespace], f.again && d.Desired == wire.Open && d.Generation > 1:
		if len(d.Earlier) == 0 {
			delete(f.sent, d.Namespace)
		} else {
			f.sent[d.Namespace] = true // the host must learn when the copy that it keeps aside is needed no more
		}
		desired := wire.Leave
		if d.Desired == wire.Absent {
			desired = wire.Absent
		}
		return wire.Doc{
			Number: d.Number, Format: d.Format, Kind: d.Kind, Namespace: d.Namespace, Generation: d.Generation, Desired: desired,
			Incarnations: d.Incarnations, Earlier: d.Earlier, Epoch: d.Epoch, Members: d.Members, Configurations: d.Configurations,
		}, true
	}
	return wire.Doc{}, false
}

// document sends a signed document. A placement that is not open may make the follower forget tokens, so they are sent
// again before the next one that needs them.
func (f *stream) document(d wire.Doc) error {
	switch {
	case d.Kind == wire.KindTokens:
		f.given[keysOf{d.Kind, d.Org}] = d.Number
	case d.Kind == wire.KindKeys:
		f.given[keysOf{d.Kind, d.Namespace}] = d.Number
	case d.Desired != wire.Open:
		clear(f.given)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	key, err := f.cfg.Signer.Key()
	if err != nil {
		return err
	}
	return f.send(wire.Message{Number: d.Number, Doc: text, Signature: token.SignDocument(key, text)})
}

// heartbeat sends the follower's position, and the JWKS with the fleet's roots if this stream has not sent the present
// ones.
func (f *stream) heartbeat() error {
	m := wire.Message{Number: f.at}
	roots := f.cfg.Authority.current.Load()
	if _, jwks := f.cfg.Signer.Trusted(); string(jwks) != f.jwks || !roots.same(f.roots) {
		m.JWKS, f.jwks, f.roots = jwks, string(jwks), roots
		roots.tell(&m)
	}
	return f.send(m)
}

func (f *stream) send(m wire.Message) error {
	// Some writers, such as those of tests, do not support deadlines.
	_ = f.flush.SetWriteDeadline(time.Now().Add(writeLimit))
	if err := f.out.Encode(m); err != nil {
		return goneError{err}
	}
	if err := f.flush.Flush(); err != nil {
		return goneError{err}
	}
	return nil
}
