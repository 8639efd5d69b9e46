// Package engine is a replicated state machine that knows nothing of what it
// replicates: Open runs one Raft group around a Machine, Propose changes it.
// It owns the wiring of pipeline, replica and log store, the group's identity,
// and what happens when leadership comes and goes. It may import everything
// below engine/, api and telemetry. DESIGN.md has the whole in one page.
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
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The contracts an engine meets its users in.
type (
	// Machine is the state that is replicated.
	Machine = replica.Machine
	// Op is one change of it.
	Op = pipeline.Op
	// Position is where a change stands in the group's log.
	Position = entry.Position
)

// MaxGroupName bounds Config.Group and Config.NodeID, in bytes.
const MaxGroupName = 128

// MinHeartbeat is the least Tuning.Heartbeat: below it a pause of the process
// passes for the death of a leader.
const MinHeartbeat = 20 * time.Millisecond

// Tuning is how a group is run: the same for all groups of a process, mostly.
// Every field has a default.
type Tuning struct {
	// Transport reaches the other members; nil = the group has none and never will.
	Transport *transport.Transport
	// Logs opens log stores; processes with many groups share one. Default: a
	// Factory of its own, of SegmentBytes and NoSync.
	Logs *raftlog.Factory
	// SegmentBytes is the size of the log's files where Logs is nil; 0 = raftlog's
	// default. Each group preallocates one.
	SegmentBytes int
	// NoSync leaves it to the operating system when the log reaches the disk, where
	// Logs is nil: a crash of the machine then loses acknowledged writes.
	NoSync bool
	// LogKind is the log store; default raftlog.WAL. It cannot be changed later.
	LogKind raftlog.Kind
	// SnapshotBytes is how much log makes a snapshot due: it bounds disk use and
	// what a restart after a crash replays. Default 64 MiB.
	SnapshotBytes int64
	// TrailingBytes is how much log stays behind a snapshot. Default 8 MiB;
	// negative = none.
	TrailingBytes int64
	// Heartbeat is how long a follower hears nothing of a leader before it stands
	// for election, Election how long a candidate waits for votes. Default 500 ms.
	Heartbeat, Election time.Duration
	// Limits bounds admission and entries; zero fields have pipeline's defaults.
	Limits pipeline.Limits
	// Autopilot promotes learners and removes dead members while this node leads.
	// nil = whoever calls AddLearner does the rest as well.
	Autopilot *Autopilot
}

// Autopilot is how members come and go by themselves.
type Autopilot struct {
	// StableAfter is how long a learner must have kept up before it gets a vote; 0 =
	// DefaultStableAfter.
	StableAfter time.Duration
	// RemoveAfter is how long a member may be silent before it is removed, if those
	// left are still a quorum of what was; 0 = never.
	RemoveAfter time.Duration
}

// DefaultStableAfter is how long a learner keeps up before it gets a vote.
const DefaultStableAfter = 5 * time.Second

// Codec carries ops and their results between members: an op that is proposed on
// a follower is proposed again by the leader. Both ends have the same table.
type Codec interface {
	// Decode reads an op, as it would stand in an entry.
	Decode(entry.Op) (Op, error)
	// EncodeResult writes what Apply answered for an op of the number, unless that
	// was an error; DecodeResult reads it.
	EncodeResult(n entry.Number, result any) ([]byte, error)
	DecodeResult(n entry.Number, encoded []byte) (any, error)
	// Repeats says whether an op that may have been applied already can be proposed
	// again: it then finds its own effect.
	Repeats(Op) bool
}

// Config is what a Group is made of. Dir, Group, Machine and StartTerm are
// required; every other field has a default.
type Config struct {
	// Dir is the group's own directory: group.json, manifest.json, log/. It is
	// made if it does not exist.
	Dir string
	// Group names the group; it is recorded in the directory and in the machine,
	// and one of another name is refused.
	Group string
	// NodeID is this member's name in the group. The default is minted when the
	// group is founded, and read from the directory from then on.
	NodeID string
	// Machine is opened by the caller and closed by the caller after Close.
	Machine Machine
	// StartTerm makes the op that goes first in every term of leadership.
	StartTerm func() Op

	// Join makes a new directory a future member of a group that exists, of this
	// incarnation: it waits to be added by that group's leader. nil = a new directory
	// founds a group, with this node as its only voter.
	Join *entry.Incarnation
	// Codec carries ops between members; nil = a member that does not lead refuses
	// them.
	Codec Codec
	// Admit may refuse an op before the leader takes it; nil = it takes all. It is called
	// by the proposer's goroutine, of whichever member, and must not block.
	Admit func(Op) error

	Tuning

	// Level is the feature level entries are written at. Default: 1.
	Level func() uint32
	// Now is the host's time. Default time.Now.
	Now func() time.Time
	// Rand is where seeds and identities come from. Default crypto/rand.
	Rand io.Reader
	// Tracer gets the spans of commits and applies: of entries with an op that was
	// proposed in a sampled span, and only as they first happen, not when they are
	// replayed. Default: none.
	Tracer trace.TracerProvider
	// Logger gets what happens to the group. Default slog.Default().
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
	require(c.Transport != nil || c.Join == nil, "Join needs a Transport")
	require(c.Transport == nil || c.NodeID == c.Transport.ID(), "NodeID is not the Transport's: members know each other by certificates")
	if len(wrong) > 0 {
		return api.Errorf(api.ValidationError, "engine configuration: %w", errors.Join(wrong...))
	}
	return nil
}
