package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/engine/transport"
)

// TestNodesFormExactlyOneCluster lets three nodes start in any order, crash at any write, come back at other
// addresses and see only some of the addresses. The nodes must form one cluster with all of them as members.
func TestNodesFormExactlyOneCluster(t *testing.T) {
	t.Parallel()
	for seed := range uint64(formSeeds()) {
		synctest.Test(t, func(t *testing.T) { formOnce(t, seed, 3) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// formSeeds returns the number of histories to play: CORVO_FORM_SEEDS=5000 for a long run.
func formSeeds() int {
	if n, err := strconv.Atoi(os.Getenv("CORVO_FORM_SEEDS")); err == nil {
		return n
	}
	return 40
}

func formOnce(t *testing.T, seed uint64, n int) {
	w := newWorld(seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		m := w.machine(t, fmt.Sprintf("node-%d", i))
		m.crashes = w.chance(4)
		running.Go(func() {
			sleep(ctx, time.Duration(w.chance(3000))*time.Millisecond)
			errs[i] = m.live(ctx, func() Config {
				return Config{Find: &Find{Expect: n, Addresses: w.addresses}, Shards: 2}
			})
		})
	}
	formed := func() bool {
		for _, m := range w.machines {
			if r, err := readRecord(m.dir); err != nil || r == nil || r.Phase != member {
				return false
			}
		}
		return true
	}
	for begun := time.Now(); !formed() && time.Since(begun) < time.Hour; {
		time.Sleep(time.Second)
	}
	cancel()
	running.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if !formed() {
		for _, m := range w.machines {
			r, _ := readRecord(m.dir)
			t.Errorf("after an hour %s is %+v", m.id, r)
		}
	}
	w.check(t)
}

// check verifies that there is one cluster, with all machines in all of its shards.
func (w *world) check(t *testing.T) {
	t.Helper()
	if len(w.founded) != 1 {
		t.Errorf("%d clusters were founded: %v", len(w.founded), w.founded)
	}
	var first record
	for i, m := range w.machines {
		r, err := readRecord(m.dir)
		if err != nil || r == nil {
			t.Fatalf("%s: %v, %v", m.id, r, err)
		}
		if i == 0 {
			first = *r
		}
		if r.Cluster != first.Cluster || r.Shards != first.Shards || !slices.Equal(r.Groups, first.Groups) {
			t.Errorf("%s is in %+v, %s in %+v", m.id, r, first.NodeID, first)
		}
		for _, inc := range r.Groups {
			s := w.shards[inc]
			if _, ok := s.members[m.id]; !ok {
				t.Errorf("%s is no member of group %s", m.id, inc)
			}
			if len(s.voted) > 0 {
				t.Errorf("opened an empty group under the name of a member: %v", s.voted)
			}
		}
	}
}

// TestReplacedNodesNeverFoundTwice replaces a node for good while a cluster is being formed. Whichever node
// was to create the cluster, two must never be created.
func TestReplacedNodesNeverFoundTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(formSeeds()) {
		synctest.Test(t, func(t *testing.T) { replaceOnce(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func replaceOnce(t *testing.T, seed uint64) {
	w := newWorld(seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	run := func(m *machine) (die func()) {
		life, die := context.WithCancel(ctx)
		running.Go(func() {
			err := m.live(life, func() Config { return Config{Find: &Find{Expect: 3, Addresses: w.addresses}} })
			if err != nil {
				t.Error(err)
			}
		})
		return die
	}
	newcomer := w.machine(t, "node-a")
	die := map[int]func(){}
	for i, id := range []string{"node-b", "node-c", "node-d"} {
		m := w.machine(t, id)
		m.crashes = w.chance(2)
		die[i+1] = run(m)
	}
	time.Sleep(time.Duration(w.chance(3000)) * time.Millisecond)
	gone := 1 + w.chance(3)
	die[gone]()
	w.machines[gone].crash()
	run(newcomer)
	time.Sleep(10 * time.Minute)
	cancel()
	running.Wait()
	if len(w.founded) > 1 {
		t.Errorf("%d clusters were founded", len(w.founded))
	}
	if gone != 3 {
		return // the others may have to wait for the node that is gone: it may have created a cluster
	}
	w.machines = w.machines[:3]
	w.check(t)
}

// TestAPromiseIsNotTakenBackToStand makes a promise to a node with a smaller ID between the decision to
// become a candidate and the candidacy. The promise must be kept.
func TestAPromiseIsNotTakenBackToStand(t *testing.T) {
	t.Parallel()
	c := rolls()
	c.cfg.persist = func(string, *record) error { return nil }
	c.record = record{NodeID: "node-b", DirectoryID: "b", Phase: outside}
	given := promise{To: "node-a", DirectoryID: "a", Round: 1}
	if a := c.answerPromise(t.Context(), transport.Peer{ID: "node-a"}, given); a.Code != "" {
		t.Fatalf("%+v", a)
	}
	why, err := c.formCluster(t.Context(), nil) // no other node could object
	if err != nil || !strings.Contains(why, "node-a") {
		t.Errorf("%q, %v", why, err)
	}
	if r := c.current(); r.Promise != given || r.inCluster() {
		t.Errorf("%+v", r)
	}
}
