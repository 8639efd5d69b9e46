// Package engine replicates a state machine without knowing its content: Open runs one Raft group around a
// Machine, and Propose changes the machine. The package connects pipeline, replica and log store, and owns
// the group's identity and the work of each term of leadership. It may import api, durable, telemetry and
// every package below engine/ but engine/cluster and engine/optable. DESIGN.md describes the whole in one
// page.
package engine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/membership"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// These types are the contract between an engine and its user.
type (
	// Machine is the replicated state machine.
	Machine = replica.Machine
	// Op is one change of the machine.
	Op = pipeline.Op
	// Position identifies an entry of the group's log.
	Position = entry.Position
)

// MaxGroupName bounds Config.Group and Config.NodeID, in bytes.
const MaxGroupName = 128

// MinHeartbeat is the smallest Tuning.Heartbeat. Below it, a pause of the process would be taken for the
// death of a leader.
const MinHeartbeat = 20 * time.Millisecond

// Tuning holds the settings that the groups of a process usually share. Every field has a default.
type Tuning struct {
	// Transport reaches the other members. If it is nil, this member can lead only while it is the group's
	// sole voter, and no node can join while the group is open.
	Transport *transport.Transport
	// Logs opens log stores; processes with many groups share one. Default: a Factory for this group, with
	// SegmentBytes and NoSync.
	Logs *raftlog.Factory
	// SegmentBytes is the size of the segment files of a raftlog.WAL log if Logs is nil, from
	// raftlog.MinSegmentBytes to raftlog.MaxSegmentBytes; 0 = raftlog's default. Each group with such a log
	// preallocates one file.
	SegmentBytes int
	// NoSync leaves the syncs of the log to the operating system, if Logs is nil. A power failure then loses
	// acknowledged writes, and the log may be refused as damaged afterwards.
	NoSync bool
	// LogKind is the kind of log store; default raftlog.WAL. It cannot be changed later.
	LogKind raftlog.Kind
	// A snapshot is due when SnapshotBytes bytes have been appended since the last one. SnapshotBytes bounds
	// disk use and the replay after a crash. Default 64 MiB.
	SnapshotBytes int64
	// TrailingBytes is how much of the log before a snapshot's position is kept. 0 = 8 MiB, negative = one
	// entry.
	TrailingBytes int64
	// A follower stands for election when it has heard no leader for a random time from Heartbeat to twice
	// Heartbeat. A candidate waits for votes for a random time from Election to twice Election. Both default
	// to 500 ms, Election to no less than Heartbeat. Heartbeat must be at least MinHeartbeat, and Election at
	// least Heartbeat.
	Heartbeat, Election time.Duration
	// A leader tells an idle follower of the last commit after a random time from CommitTimeout to twice CommitTimeout.
	// A write through a follower and a strong read on it do not wait for that. Default 50 ms, at least 1 ms.
	CommitTimeout time.Duration
	// Limits bounds admission and entries. Zero fields take pipeline's defaults.
	Limits pipeline.Limits
	// Autopilot promotes learners and removes dead members while this node leads. nil = the caller of
	// AddLearner promotes and removes members.
	Autopilot *Autopilot
}

// Autopilot sets how members are promoted and removed automatically.
type Autopilot struct {
	// StableAfter is how long a learner must have kept up before it gets a vote; 0 = DefaultStableAfter.
	StableAfter time.Duration
	// RemoveAfter is how long a member may be silent before it is removed; 0 = never. A voter is removed only
	// while most voters are alive and MinVoters remain.
	RemoveAfter time.Duration
}

// DefaultStableAfter is how long a learner must have kept up before it gets a vote.
const DefaultStableAfter = 5 * time.Second

// Codec decodes the ops that followers forward to the leader, and encodes and decodes their results. All
// members must use the same table of ops.
type Codec interface {
	// Decode decodes an op as it is encoded in an entry.
	Decode(entry.Op) (Op, error)
	// EncodeResult encodes the result of Apply for an op of the given number, if it is neither nil nor an
	// error. DecodeResult decodes it.
	EncodeResult(n entry.Number, result any) ([]byte, error)
	DecodeResult(n entry.Number, encoded []byte) (any, error)
	// Repeats reports whether an op that may have been applied can be proposed again, because it then finds
	// its own effect.
	Repeats(Op) bool
}

// Config holds the parameters of Open. Dir, Group, Machine and StartTerm are required; every other field has
// a default.
type Config struct {
	// Dir is the group's own directory, with group.json, manifest.json and log/. Open creates it if it does
	// not exist.
	Dir string
	// Group names the group, in at most MaxGroupName bytes. The name is recorded in the directory and in the
	// machine; Open refuses a directory or machine of another group.
	Group string
	// NodeID is this member's name in the group, of at most MaxGroupName bytes. With a Transport it is the
	// Transport's ID. Without one, the default is drawn at random when the group is created, and read from
	// the directory afterwards.
	NodeID string
	// Machine is opened by the caller, who closes it after Close.
	Machine Machine
	// StartTerm creates the first op of every term of this member's leadership. It must not block and must
	// not call the group.
	StartTerm func() Op

	// Join makes a new directory a future member of an existing group with this incarnation. The member waits
	// until that group's leader adds it. Join needs a Transport and excludes Incarnation. nil = a new
	// directory bootstraps a group with this node as its only voter.
	Join *entry.Incarnation
	// Incarnation is the only incarnation that the directory may hold. A new directory that bootstraps a group gives it
	// this incarnation. nil = the directory may hold any, and the bootstrap of a new one draws it at random.
	Incarnation *entry.Incarnation
	// Rename reports whether a directory of the given node becomes a directory of NodeID when it is opened. The
	// node must be the only member of its group. nil = Open refuses the directory of another node.
	Rename func(old string) bool
	// Codec carries forwarded ops and their results between members. If it is nil, this member forwards no
	// ops and takes no forwarded ones.
	Codec Codec
	// Admit may refuse an op before the leader takes it; nil admits every op. It runs on the leader, on the
	// goroutine that proposes or, for a forwarded op, handles the call, and must not block.
	Admit func(Op) error

	Tuning

	// List returns the list of members in the machine, or nil if there is none, and a channel that is closed when a
	// newer list is applied. While there is a list, the leader changes the configuration towards it (ADR 0065) and runs
	// no autopilot. nil = the group never has a list.
	List func() (list []membership.Listed, changed <-chan struct{})
	// View returns the index of the last entry that this member's view of the machine shows. The leader gives a listed
	// member no vote before the view has caught up. nil = the machine has no view.
	View func() uint64
	// Peers reports whether a node may send to this member although the node is neither in the group's configuration nor
	// in the list of members, as this member knows them. A new member knows neither. Peers runs on the goroutine that
	// reads from the node, so it must not block. nil = a member that does not lead accepts every node that the
	// Transport's Identity trusts.
	Peers func(id string) bool

	// OnChange is called after a change of the term, the known leader, the applied configuration or the health of this
	// member. It runs under the group's lock, so it must neither block nor call the group. nil is not called.
	OnChange func()

	// Level returns the feature level to write entries at. Default: 1.
	Level func() uint32
	// MaxLevel is the highest feature level that this member understands. The leader asks for it. Default: 1.
	MaxLevel uint32
	// Now returns the host's time. Default time.Now.
	Now func() time.Time
	// Rand is the source of seeds and identities. Default crypto/rand.
	Rand io.Reader
	// Tracer receives the spans of commits and applies, for entries with an op that was proposed in a sampled
	// span. Replayed entries make no spans. Default: none.
	Tracer trace.TracerProvider
	// Logger receives the group's log lines. Default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Logs == nil {
		c.Logs = &raftlog.Factory{SegmentBytes: c.SegmentBytes, NoSync: c.NoSync, Logger: replica.NewLogger(c.Logger)}
	}
	if c.Level == nil {
		c.Level = func() uint32 { return 1 }
	}
	if c.MaxLevel == 0 {
		c.MaxLevel = 1
	}
	if c.Tracer == nil {
		c.Tracer = noop.NewTracerProvider()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Transport != nil && c.NodeID == "" {
		c.NodeID = c.Transport.ID()
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = replica.DefaultHeartbeat
	}
	if c.CommitTimeout == 0 {
		c.CommitTimeout = replica.DefaultCommitTimeout
	}
	if c.Election == 0 {
		c.Election = max(replica.DefaultElection, c.Heartbeat)
	}
	return c
}

func (c Config) validate() error {
	var wrong []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	require(c.Dir != "", "Dir is empty")
	require(c.Group != "", "Group is empty")
	require(len(c.Group) <= MaxGroupName, "Group takes %d bytes, the most is %d", len(c.Group), MaxGroupName)
	require(len(c.NodeID) <= MaxGroupName, "NodeID takes %d bytes, the most is %d", len(c.NodeID), MaxGroupName)
	require(c.Machine != nil, "Machine is nil")
	require(c.StartTerm != nil, "StartTerm is nil")
	require(c.SnapshotBytes >= 0, "SnapshotBytes is %d", c.SnapshotBytes)
	require(c.Heartbeat >= MinHeartbeat, "Heartbeat is %v, the least is %v", c.Heartbeat, MinHeartbeat)
	require(c.Election >= c.Heartbeat, "Election is %v, which is less than Heartbeat (%v)", c.Election, c.Heartbeat)
	require(c.CommitTimeout >= time.Millisecond, "CommitTimeout is %v, the least is 1ms", c.CommitTimeout)
	require(c.Transport != nil || c.Join == nil, "Join needs a Transport")
	require(c.Join == nil || c.Incarnation == nil, "Join names the incarnation already")
	require(c.Transport == nil || c.NodeID == c.Transport.ID(), "NodeID is not the Transport's: members know each other by certificates")
	if len(wrong) > 0 {
		return api.Errorf(api.ValidationError, "engine configuration: %w", errors.Join(wrong...))
	}
	return nil
}
