package replica

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/image"
)

// network connects replicas in memory and sends snapshots as the transport does: first the missing parts to
// the follower's staging, then the stream that raft reads.
type network struct {
	mu       sync.Mutex
	links    map[raft.ServerAddress]*link
	stagings map[raft.ServerAddress]image.Staging
	breaks   []int          // number of parts that each of the next transfers sends before it breaks
	arrived  map[string]int // how often each part arrived, by its hash
	torn     int            // transfers that broke
	during   func()         // called before each part
}

func newNetwork() *network {
	return &network{links: map[raft.ServerAddress]*link{}, stagings: map[raft.ServerAddress]image.Staging{}, arrived: map[string]int{}}
}

// link is one replica's end of the network.
type link struct {
	*raft.InmemTransport
	net *network
}

func (n *network) link(at raft.ServerAddress) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, t := raft.NewInmemTransport(at)
	l := &link{t, n}
	for address, other := range n.links {
		if address != at {
			other.Connect(at, l.InmemTransport)
			l.Connect(address, other.InmemTransport)
		}
	}
	n.links[at] = l
	return l
}

func (n *network) stage(at raft.ServerAddress, s image.Staging) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stagings[at] = s
}

var errTorn = errors.New("the connection was torn")

// next returns the plan of one transfer.
func (n *network) next(to raft.ServerAddress) (s image.Staging, breakAfter int, during func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	breakAfter = -1
	if len(n.breaks) > 0 {
		breakAfter, n.breaks = n.breaks[0], n.breaks[1:]
		n.torn++
	}
	return n.stagings[to], breakAfter, n.during
}

func (l *link) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	from := data.(image.Source)
	staging, breakAfter, during := l.net.next(to)
	if staging == nil {
		return errTorn
	}
	missing, err := staging.Missing(from.Parts())
	if err != nil {
		return err
	}
	for i, p := range missing {
		if during != nil {
			during()
		}
		r, err := from.Open(p.Name)
		if err != nil {
			return err
		}
		var in io.Reader = r
		if i == breakAfter {
			in = io.MultiReader(io.LimitReader(r, p.Size/2), iotest.ErrReader(errTorn))
		}
		if err := errors.Join(staging.Store(p, in), r.Close()); err != nil {
			return err
		}
		l.net.mu.Lock()
		l.net.arrived[fmt.Sprintf("%x", p.Sum)]++
		l.net.mu.Unlock()
	}
	if breakAfter >= len(missing) {
		return errTorn // after the last part, before the stream
	}
	return l.InmemTransport.InstallSnapshot(id, to, args, resp, data)
}

// member opens a replica of the network's group, which leads or follows on its own.
func (n *network) member(t *testing.T, dir, id string, m Machine, log Log, joining bool) *Replica {
	t.Helper()
	r, err := Open(Config{
		Dir: dir, Group: ours.Group, Incarnation: ours.Incarnation, ID: id, Machine: m, Log: log, Joining: joining,
		Transport: n.link(raft.ServerAddress(id)), TrailingBytes: -1, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.stage(raft.ServerAddress(id), r.Staging())
	t.Cleanup(func() { _ = r.Close() }) // idempotent
	return r
}

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func write(t *testing.T, r *Replica, words ...string) {
	t.Helper()
	for _, w := range words {
		if _, _, err := r.Append(r.Term(), encode(t, ours.Incarnation, 1, w)).Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *tape) ops() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.now.Ops)
}

func words(what string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s %03d", what, i))
	}
	return all
}

// leaderOfCutLog returns a group of one whose log begins after all entries written so far.
func leaderOfCutLog(t *testing.T, net *network, m *tape) *Replica {
	t.Helper()
	log := newMemory()
	if err := Bootstrap(log, "one", "one", m); err != nil {
		t.Fatal(err)
	}
	leader := net.member(t, t.TempDir(), "one", m, log, false)
	eventually(t, "a leader", leader.Leads)
	write(t, leader, words("before", 50)...)
	if err := leader.Snapshot(); err != nil {
		t.Fatal(err)
	}
	return leader
}

// TestSnapshotOverABadConnection sends a snapshot to a new member over a connection that breaks repeatedly,
// while the leader applies more entries and the member is restarted in the middle. Each part must arrive
// once.
func TestSnapshotOverABadConnection(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	net := newNetwork()
	one, two := new(tape), new(tape)
	leader := leaderOfCutLog(t, net, one)
	for range 3 {
		net.breaks = append(net.breaks, rng.IntN(15))
	}
	net.breaks = append(net.breaks, 1000) // once all parts have arrived
	var extra sync.Once
	net.during = func() { extra.Do(func() { write(t, leader, words("during", 20)...) }) }
	dir, log := t.TempDir(), newMemory()
	follower := net.member(t, dir, "two", two, log, true)
	if err := leader.Put(Peer{ID: "two", Address: "two"}, 0); err != nil {
		t.Fatal(err)
	}
	torn := func() int {
		net.mu.Lock()
		defer net.mu.Unlock()
		return net.torn
	}
	eventually(t, "a broken transfer", func() bool { return torn() >= 2 })
	net.stage("two", nil)
	if err := follower.Close(); err != nil {
		t.Fatal(err)
	}
	follower = net.member(t, dir, "two", two, log, true)
	eventually(t, "the follower", func() bool { return two.Applied() == one.Applied() && len(two.ops()) == 70 })
	write(t, leader, words("after", 5)...)
	eventually(t, "what comes after", func() bool { return len(two.ops()) == 75 })
	if got, want := two.ops(), one.ops(); !slices.Equal(got, want) {
		t.Errorf("the follower holds %v, the leader %v", got, want)
	}
	net.mu.Lock()
	if len(net.breaks) > 0 {
		t.Errorf("%d breaks did not happen", len(net.breaks))
	}
	heads := 0
	for sum, n := range net.arrived {
		if n > 1 {
			t.Errorf("part %s arrived %d times", sum, n)
		}
		heads++
	}
	if heads < 50 {
		t.Errorf("only %d parts arrived", heads)
	}
	net.mu.Unlock()
	if got := fmt.Sprint(list(t, dir)); got != "[manifest.json]" {
		t.Errorf("the follower's directory holds %s", got)
	}
	if st, err := follower.Status(); err != nil || st.Snapshot < 50 {
		t.Errorf("status %+v, %v", st, err)
	}
}

// TestAnEntryArrivesInASnapshot checks that AdvanceCommit for an entry ends when the entry comes in a snapshot, before or after
// the call, because the log never holds the entry then.
func TestAnEntryArrivesInASnapshot(t *testing.T) {
	t.Parallel()
	net := newNetwork()
	one, two := new(tape), new(tape)
	leader := leaderOfCutLog(t, net, one)
	follower := net.member(t, t.TempDir(), "two", two, newMemory(), true)
	at := one.Applied().Position()
	advanced := make(chan struct{})
	go func() {
		follower.AdvanceCommit(t.Context(), "one", at)
		close(advanced)
	}()
	if err := leader.Put(Peer{ID: "two", Address: "two"}, 0); err != nil {
		t.Fatal(err)
	}
	for what, done := range map[string]func() bool{
		"the snapshot": func() bool { return two.Applied().Index >= at.Index },
		"the end of the call before it": func() bool {
			select {
			case <-advanced:
				return true
			default:
				return false
			}
		},
	} {
		eventually(t, what, done)
	}
	follower.AdvanceCommit(t.Context(), "one", at)
}

// TestSnapshotOfAnotherHistoryIsRefused sends a member a snapshot of another history, from a leader of the
// same name. The member must refuse, change nothing, and continue.
func TestSnapshotOfAnotherHistoryIsRefused(t *testing.T) {
	t.Parallel()
	net := newNetwork()
	one, two := new(tape), new(tape)
	leader := leaderOfCutLog(t, net, one)
	one.mu.Lock()
	one.poses = &theirs.Incarnation // like a leader that was restored from a backup
	one.mu.Unlock()
	dir := t.TempDir()
	follower := net.member(t, dir, "two", two, newMemory(), true)
	put := make(chan error, 1)
	go func() { put <- leader.Put(Peer{ID: "two", Address: "two"}, 0) }()
	eventually(t, "the transfer", func() bool {
		net.mu.Lock()
		defer net.mu.Unlock()
		return len(net.arrived) > 50
	})
	eventually(t, "the refusal", func() bool {
		one.mu.Lock()
		defer one.mu.Unlock()
		return one.images > 1 // raft tries again
	})
	if err := follower.Err(); err != nil || two.Applied().Index != 0 {
		t.Errorf("the follower is at %v, %v", two.Applied(), err)
	}
	if got := fmt.Sprint(list(t, dir)); got != "[staging]" {
		t.Errorf("the follower's directory holds %s", got)
	}
	<-put // its outcome does not matter
}

// strict is a log that refuses gaps, as raft-wal does.
type strict struct{ *memory }

func (strict) IsMonotonic() bool { return true }

func (s strict) StoreLogs(logs []*raft.Log) error {
	last, err := s.LastIndex()
	if err == nil && last > 0 && logs[0].Index != last+1 {
		err = fmt.Errorf("entry %d does not follow entry %d", logs[0].Index, last)
	}
	return errors.Join(err, s.memory.StoreLogs(logs))
}

func (s strict) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// TestCrashBehindATakeover stops the process at each step between the installation of a snapshot and the
// truncation of the log. When the replica is opened again, the old log must be deleted where necessary, and
// the leader's next entry must follow the snapshot.
func TestCrashBehindATakeover(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stale func(snapshot uint64) []*raft.Log // what lies in the log
		died  func(t *testing.T, s *snapshots, a announcement)
	}{
		"restored, no manifest yet": {died: func(*testing.T, *snapshots, announcement) {}},
		"manifest written": {died: func(t *testing.T, s *snapshots, a announcement) {
			a.Received = true
			if err := s.write(a.manifest); err != nil {
				t.Fatal(err)
			}
		}},
		"the log holds more than the snapshot, never agreed on": {
			stale: func(snapshot uint64) []*raft.Log { return logsOf(1, snapshot+9, 1) },
			died:  func(*testing.T, *snapshots, announcement) {},
		},
		"the log is cut": {
			stale: func(uint64) []*raft.Log { return nil },
			died: func(t *testing.T, s *snapshots, a announcement) {
				got, err := s.readReceived(s.receivedPath(a.manifest))
				if err == nil {
					err = s.installed(got)
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net := newNetwork()
			one, two := new(tape), new(tape)
			leader := leaderOfCutLog(t, net, one)
			if err := leader.Put(Peer{ID: "two", Address: "two"}, 0); err != nil {
				t.Fatal(err)
			}
			dir, log := t.TempDir(), strict{newMemory()}
			stale := logsOf(1, 20, 1)
			if test.stale != nil {
				stale = test.stale(one.Applied().Index)
			}
			if len(stale) > 0 {
				if err := log.StoreLogs(stale); err != nil {
					t.Fatal(err)
				}
			}
			s := storeOf(t, dir, two)
			k, _ := deliver(t, one, s)
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
			a := mustDecode(t, k)
			if err := two.Restore(s.staging.source(a, ours)); err != nil {
				t.Fatal(err)
			}
			test.died(t, s, a)
			follower := net.member(t, dir, "two", two, log, false)
			write(t, leader, words("after", 5)...)
			eventually(t, "what comes after", func() bool { return two.Applied() == one.Applied() })
			if got, want := two.ops(), one.ops(); !slices.Equal(got, want) {
				t.Errorf("the follower holds %v, the leader %v", got, want)
			}
			if first, err := log.FirstIndex(); err != nil || first != a.Index+1 {
				t.Errorf("the log begins at entry %d, the snapshot was of %d, %v", first, a.Index, err)
			}
			// A restart skips the entries that the machine holds.
			if err := follower.Close(); err != nil {
				t.Fatal(err)
			}
			net.member(t, dir, "two", two, log, false)
			write(t, leader, "last")
			eventually(t, "the last", func() bool { return two.Applied() == one.Applied() })
			if got, want := two.ops(), one.ops(); !slices.Equal(got, want) {
				t.Errorf("after a restart the follower holds %v, the leader %v", got, want)
			}
		})
	}
}

func logsOf(first, last, term uint64) (logs []*raft.Log) {
	for index := first; index <= last; index++ {
		logs = append(logs, &raft.Log{Index: index, Term: term, Type: raft.LogNoop})
	}
	return logs
}
