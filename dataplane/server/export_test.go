package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/tenancy"
)

// The names that the tests of package server_test need beyond the public ones.
const (
	IndexHeader       = indexHeader
	LagHeader         = lagHeader
	IdempotencyHeader = idempotencyHeader

	BodyManage       = bodyManage
	DefaultNextRuns  = defaultNextRuns
	EventRingBytes   = eventRingBytes
	EveryOther       = everyOther
	KeyUsesKept      = keyUsesKept
	NotLeader        = notLeader
	OverloadRetry    = overloadRetry
	SharedEventBytes = sharedEventBytes
	StreamWait       = streamWait
	Unmatched        = unmatched

	PartAcks     = partAcks
	PartEnqueues = partEnqueues
	PartFetch    = partFetch
)

var (
	Document    = document
	MaxCursors  = maxCursors
	QueueStates = queueStates
	ShareOf     = shareOf
	Whole       = whole
)

// Config returns the configuration. A test may change it while no request runs.
func (s *Server) Config() *Config { return &s.cfg }

// AwaitOwn waits for a write of a request in the default namespace.
func (s *Server) AwaitOwn(ctx context.Context, shard uint32, index cell.Index) error {
	shards, err := router.Open(s.cfg.Host, tenancy.Default)
	if err != nil {
		return err
	}
	return s.awaitOwn(ctx, &request{shards: shards}, position{shard, index})
}

func (s *Server) Routes() []serve.Route     { return s.routes() }
func (s *Server) Table() []serve.Route      { return s.table() }
func (s *Server) Procedures() []serve.Route { return s.procedures() }
func (s *Server) BodyEnqueue() int64        { return s.bodyEnqueue() }

// These functions return how much of a bound is in use.
func (s *Server) BodyBytes() int64   { return s.bodies.used.Load() }
func (s *Server) Searches() int64    { return s.searches.used.Load() }
func (s *Server) OpenStreams() int64 { return s.streams.used.Load() }
func (s *Server) BulkStreams() int64 { return s.bulkStreams.used.Load() }

// Backing is true while a backup is being sent.
func (s *Server) Backing() *atomic.Bool { return &s.backing }

// Frames has one element for each frame of a stream in progress.
func (s *Server) Frames() chan struct{} { return s.frames }

// FramesOf is Frames for one namespace.
func (s *Server) FramesOf(ns tenancy.NamespaceID) chan struct{} {
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	return s.shares.of[ns].frames
}

// StreamingNamespaces returns the number of namespaces whose open streams are counted.
func (s *Server) StreamingNamespaces() int {
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	return len(s.shares.of)
}

// Authenticate checks the credential of a request.
func (s *Server) Authenticate(r *http.Request) (tenancy.Principal, error) { return s.authenticate(r) }

// AllowAddress counts a request from an address.
func (s *Server) AllowAddress(address netip.Addr) error {
	return s.limits.AllowAddress(address, s.cfg.Now())
}

// FillNewKeys leaves no room for requests that wait for a key that this node does not know.
func (s *Server) FillNewKeys() bool { return s.newKeys.take(maxNewKeys) }

// RememberedKeys returns the number of keys whose use is remembered.
func (s *Server) RememberedKeys() (all int) {
	s.keyUses.byID.Range(func(any, any) bool { all++; return true })
	return all
}

// LastUsedNs returns the time of the last use of a key.
func (s *Server) LastUsedNs(id string) int64 { return s.lastUsedNs(id) }

// RecordPending writes all pending requests to the audit log, at any rate.
func (s *Server) RecordPending() { s.requests.Flush(context.Background()) }

// EncodeIndex returns the text of a position in a shard's log.
func EncodeIndex(shard uint32, at cell.Index) string { return encodeIndex(position{shard, at}) }

// IndexedShards returns the number of shards that the text of a position names.
func IndexedShards(text string, shards int) (int, error) {
	at, err := decodeIndex(text, shards)
	return len(at), err
}

// EventMemory returns the events in memory of a namespace's first shard and their bytes. open is false if the
// namespace has no event stream.
func (s *Server) EventMemory(ns tenancy.NamespaceID) (events, bytes int, open bool) {
	hub := s.hub(ns)
	if hub == nil {
		return 0, 0, false
	}
	events, bytes = hub.rings[0].size()
	return events, bytes, true
}

// RestEvents frees a namespace's events in memory if it had no new events for a time.
func (s *Server) RestEvents(ns tenancy.NamespaceID, idle time.Duration) { s.hub(ns).rest(idle) }

func (s *Server) hub(ns tenancy.NamespaceID) *eventHub {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	return s.events.of[ns]
}

// FetchClaimed fetches from a queue with a claim of one job, which may be gone meanwhile. It returns the number
// of leased jobs.
func (s *Server) FetchClaimed(in *cell.Cell, shards router.Shards, queue string) (int, error) {
	q := &request{shards: shards, meta: &op.Meta{Principal: "test"}}
	ask := &convert.Fetch{Queues: []string{queue}, Count: 1, LeaseMs: 60_000}
	claims := []claim{{router.Run{Cell: in, Items: ask.Queues}, 1, func() {}}}
	leased, _, err := s.leaseClaimed(httptest.NewRequest("POST", "/api/v1/fetch", nil), q, ask, claims, false)
	return len(leased), err
}

// PartEnd is the end of a part of a frame: its error, and whether it has changed anything.
type PartEnd struct {
	Part int
	Err  error
	Did  bool
}

// LeaderFor returns the address of the leader to which a frame is sent after its parts have ended; "" keeps the
// frame here.
func (s *Server) LeaderFor(shards router.Shards, ends ...PartEnd) string {
	f := &frame{stream: &stream{server: s}, q: request{shards: shards}}
	for _, e := range ends {
		f.ended(e.Part, e.Err, e.Did)
	}
	return f.leaderFor(f.err())
}
