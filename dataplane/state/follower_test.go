package state

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// shard is a Store as the state machine of a replica: each op of an entry creates a job.
type shard struct{ *Store }

var _ replica.Holder = shard{}

func (s shard) LastClock() int64 { return s.Head().ClockNs }

func (s shard) Image() (replica.Image, error) {
	i, err := s.Store.Image()
	if err != nil {
		return nil, err
	}
	return i, nil
}

func (s shard) Configure(at entry.Applied, c []byte) error { return s.PutConfiguration(at, c) }

func (s shard) Apply(at entry.Applied, e entry.Entry) ([]any, error) {
	tx := s.Begin(at, e.Header)
	for _, o := range e.Ops {
		n := int(binary.BigEndian.Uint64(o.Bytes))
		j := newJob(n, "q")
		data := make([]byte, 1000)
		rng := rand.New(rand.NewPCG(uint64(n), 0))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		if err := errors.Join(tx.PutBlob(j, job.Payload, &job.Blob{Data: data}), tx.CreateJob(j, enqueued)); err != nil {
			return nil, err
		}
	}
	return make([]any, len(e.Ops)), tx.Commit()
}

// number is an op. Its value is the number of the job that it creates.
type number uint64

func (n number) MarshalToSizedBufferVT(to []byte) (int, error) {
	binary.BigEndian.PutUint64(to, uint64(n))
	return 8, nil
}

// cluster is a leader and a follower with stores on disk, on a network in memory.
type cluster struct {
	t     *testing.T
	net   *memnet.Net
	ids   map[string]transport.Identity
	at    map[string]string
	next  uint64
	wire  counter
	clock int64
}

// counter is the staging of the follower. It counts the parts that arrive and breaks transfers.
type counter struct {
	image.Staging
	mu      sync.Mutex
	arrived map[image.Part]int // whole parts
	bytes   int64
	breaks  int // how many transfers still break
	rng     *rand.Rand
}

var errTorn = errors.New("torn")

func (c *counter) Store(p image.Part, r io.Reader) error {
	c.mu.Lock()
	torn := c.breaks > 0 && c.rng.IntN(2) == 0
	if torn {
		c.breaks--
		r = io.MultiReader(io.LimitReader(r, c.rng.Int64N(p.Size+1)), readerFunc(func([]byte) (int, error) { return 0, errTorn }))
	}
	c.mu.Unlock()
	if err := c.Staging.Store(p, r); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived[image.Part{Size: p.Size, Sum: p.Sum}]++
	c.bytes += p.Size
	return nil
}

// reset starts to count anew and returns the bytes so far.
func (c *counter) reset(breaks int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.bytes
	c.arrived, c.bytes, c.breaks = map[image.Part]int{}, 0, breaks
	return before
}

type node struct {
	*replica.Replica
	store *Store
	dir   string
	close func()
}

func (c *cluster) open(id, dir string, found bool) *node {
	c.t.Helper()
	listener, err := c.net.Listen(id, 0)
	must(c.t, err)
	quiet := slog.New(slog.DiscardHandler)
	tr, err := transport.Open(transport.Config{NodeID: id, Listener: listener, Identity: c.ids[id], Dial: c.net.Dialer(id), Logger: quiet})
	must(c.t, err)
	c.at[id] = tr.Address()
	group, err := tr.Group("g", testIncarnation)
	must(c.t, err)
	store, err := Open(filepath.Join(dir, "store"), Options{MemTableBytes: 4 << 20})
	must(c.t, err)
	log, err := (&raftlog.Factory{SegmentBytes: raftlog.MinSegmentBytes, Logger: replica.NewLogger(quiet)}).Open(filepath.Join(dir, "log"), raftlog.WAL)
	must(c.t, err)
	if found {
		must(c.t, replica.Bootstrap(log, id, c.at[id], shard{store}))
	}
	r, err := replica.Open(replica.Config{
		Dir: dir, Group: "g", Incarnation: testIncarnation, ID: id, Machine: shard{store}, Log: log, Joining: !found,
		Transport: group, TrailingBytes: -1, Logger: quiet,
	})
	must(c.t, err)
	if found {
		group.Stage(r.Staging())
	} else {
		c.wire.mu.Lock()
		c.wire.Staging = r.Staging()
		c.wire.mu.Unlock()
		group.Stage(&c.wire)
	}
	n := &node{Replica: r, store: store, dir: dir}
	n.close = sync.OnceFunc(func() {
		must(c.t, r.Close())
		must(c.t, store.Close())
		must(c.t, tr.Close())
	})
	c.t.Cleanup(n.close)
	return n
}

// write creates jobs in several entries, each with that many jobs.
func (c *cluster) write(leader *node, entries, jobs int) {
	c.t.Helper()
	for range entries {
		var b entry.Builder
		for range jobs {
			c.next++
			must(c.t, b.Add(1, 8, number(c.next)))
		}
		c.clock++
		encoded := b.Finish(entry.Header{Level: 1, Incarnation: testIncarnation, ClockNs: c.clock})
		_, _, err := leader.Append(leader.Term(), encoded).Wait()
		must(c.t, err)
	}
}

func (c *cluster) eventually(what string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (c *cluster) same(leader, follower *node) {
	c.t.Helper()
	c.eventually("the follower to catch up", func() bool { return follower.Applied() == leader.Applied() })
	if content(c.t, leader.store) != content(c.t, follower.store) {
		c.t.Error("the stores differ")
	}
	check(c.t, follower.store)
	for _, n := range []*node{leader, follower} {
		for _, pattern := range []string{"store/image-*", "staging", "received-*"} {
			c.eventually(pattern+" to be gone", func() bool {
				left, err := filepath.Glob(filepath.Join(n.dir, pattern))
				must(c.t, err)
				return len(left) == 0
			})
		}
	}
}

func newCluster(t *testing.T) *cluster {
	return &cluster{
		t: t, net: memnet.New(), ids: transporttest.Identities("one", "two"), at: map[string]string{},
		wire: counter{rng: rand.New(rand.NewPCG(7, 7)), arrived: map[image.Part]int{}},
	}
}

// leaderOfCutLog writes some 6 MB and cuts the log after them.
func (c *cluster) leaderOfCutLog() *node {
	c.t.Helper()
	leader := c.open("one", c.t.TempDir(), true)
	c.eventually("a leader", leader.Leads)
	c.write(leader, 60, 100)
	compact(c.t, leader.store) // in the test's time, not in its own
	must(c.t, leader.Snapshot())
	return leader
}

func (c *cluster) join(leader *node, dir string) *node {
	c.t.Helper()
	follower := c.open("two", dir, false)
	must(c.t, leader.Put(replica.Peer{ID: "two", Address: c.at["two"]}, 0))
	return follower
}

// TestFollowerGetsASnapshot sends a snapshot from a leader whose log is cut to an empty follower, over mutual
// TLS, with real logs and real stores. The transfer breaks again and again, while the leader applies more
// entries.
func TestFollowerGetsASnapshot(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader := c.leaderOfCutLog()
	c.wire.reset(3)
	follower := c.join(leader, t.TempDir())
	c.write(leader, 30, 10)
	c.same(leader, follower)
	for p, n := range c.wire.arrived {
		if n > 1 {
			t.Errorf("a part of %d bytes arrived %d times", p.Size, n)
		}
	}
	if c.wire.breaks > 0 {
		t.Errorf("%d transfers did not break", c.wire.breaks)
	}
}

// TestSecondSnapshotIsSmall takes the follower away for a while. The leader must send it only the new parts.
func TestSecondSnapshotIsSmall(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader := c.leaderOfCutLog()
	dir := t.TempDir()
	follower := c.join(leader, dir)
	c.same(leader, follower)
	first := c.wire.reset(0)
	follower.close()
	c.write(leader, 20, 20)
	must(t, leader.Snapshot())
	c.same(leader, c.join(leader, dir))
	second := c.wire.reset(0)
	if first < 5<<20 || second == 0 || second > first/5 {
		t.Errorf("the first snapshot was %d bytes, the second %d", first, second)
	}
}

// TestLeftoversAreUsed restarts the follower in the middle of a transfer.
func TestLeftoversAreUsed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader := c.leaderOfCutLog()
	dir := t.TempDir()
	follower := c.open("two", dir, false)
	i, err := leader.store.Image()
	must(t, err)
	missing, err := follower.Staging().Missing(i.Parts())
	must(t, err)
	var large image.Part
	for _, p := range missing {
		if p.Size > large.Size {
			large = p
		}
	}
	r, err := i.Open(large.Name)
	must(t, err)
	must(t, follower.Staging().Store(large, r))
	must(t, r.Close())
	must(t, i.Close())
	follower.close()

	c.same(leader, c.join(leader, dir))
	if len(c.wire.arrived) == 0 || c.wire.arrived[image.Part{Size: large.Size, Sum: large.Sum}] > 0 {
		t.Errorf("%d parts arrived, the one that was there among them", len(c.wire.arrived))
	}
}
