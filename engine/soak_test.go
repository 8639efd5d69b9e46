package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/raftlog/faultlog"
)

// soakTime is the virtual time that TestSoak runs for each group size. CORVO_VIRTUAL overrides it, for
// example with 2h.
const soakTime = 2 * time.Minute

// soakWindow is how long a register is used, and the interval between checks of the history. A write with an
// unknown outcome stays concurrent with all that follow.
const soakWindow = time.Minute

// soak injects random faults into a cluster: partitions, one-way cuts, broken and slow connections, crashes,
// slow disks, clock jumps, snapshots, transfers, and members that leave and join.
type soak struct {
	*chaos
	random *rand.Rand
	disks  map[string]*faultlog.Faults
	counts map[string]int
}

func TestSoak(t *testing.T) {
	length := soakTime
	if set := os.Getenv("CORVO_VIRTUAL"); set != "" {
		var err error
		if length, err = time.ParseDuration(set); err != nil {
			t.Fatal(err)
		}
	}
	for seed, size := range []int{3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			disks := map[string]*faultlog.Faults{}
			for i := range size {
				disks[string(rune('a'+i))] = new(faultlog.Faults)
			}
			virtual(t, size, func(t *testing.T, c *cluster) {
				s := &soak{
					chaos:  &chaos{cluster: c, seed: uint64(seed) + 7},
					random: rand.New(rand.NewPCG(uint64(seed), uint64(length))),
					disks:  disks, counts: map[string]int{},
				}
				s.run(t, length)
			}, func(conf *engine.Config) { conf.Logs.Wrap = disks[conf.Transport.ID()].Wrap })
		})
	}
}

func (s *soak) run(t *testing.T, length time.Duration) {
	accesses, refused := 0, 0
	for end := time.Now().Add(length); time.Now().Before(end); {
		h := &history{begun: time.Now(), prefix: fmt.Sprint(time.Now().Unix(), ".")}
		ctx, cancel := context.WithTimeout(context.Background(), soakWindow)
		var clients sync.WaitGroup
		for id := range 5 {
			clients.Go(func() { h.client(ctx, id, s.chaos) })
		}
		for ctx.Err() == nil {
			s.harm()
		}
		clients.Wait()
		cancel()
		s.check(t, h)
		accesses, refused = accesses+len(h.accesses), refused+h.refused
		if t.Failed() {
			return
		}
	}
	t.Logf("%v: %d accesses, %d refused, harm: %v", length, accesses, refused, s.counts)
	if refused > accesses {
		t.Errorf("%d accesses, %d refused: the test shows little", accesses, refused)
	}
}

// check verifies the clients' history and that the members agree, while no fault is active.
func (s *soak) check(t *testing.T, h *history) {
	for _, m := range s.members {
		c := soon(t)
		if err := m.Verify(c); err != nil {
			s.until("strong reads at "+m.id, func() bool { return m.Verify(c) == nil })
		}
	}
	if result, _ := porcupine.CheckOperationsVerbose(registers, h.accesses, 20*time.Second); result != porcupine.Ok {
		t.Errorf("%d accesses: %s", len(h.accesses), result)
	}
	leader := s.leader()
	for _, m := range s.members {
		m.machine.mu.Lock()
		for i := 1; i < len(m.machine.clocks); i++ {
			if m.machine.clocks[i] < m.machine.clocks[i-1] {
				t.Errorf("%s: the clock fell from %d to %d", m.id, m.machine.clocks[i-1], m.machine.clocks[i])
			}
		}
		m.machine.clocks = m.machine.clocks[max(0, len(m.machine.clocks)-1):]
		m.machine.mu.Unlock()
	}
	if len(leader.Members()) != len(s.members) || voters(leader) != len(s.members) {
		t.Errorf("members: %+v", leader.Members())
	}
}

// harm injects one fault and undoes it after a while.
func (s *soak) harm() {
	one := s.members[s.random.IntN(len(s.members))]
	other := s.others(one)[s.random.IntN(len(s.members)-1)]
	last := time.Duration(s.random.IntN(8000)) * time.Millisecond
	kinds := []struct {
		name string
		do   func()
	}{
		{"isolate", func() { s.net.Isolate(one.id) }},
		{"cut", func() { s.net.Cut(one.id, other.id) }},
		{"break", func() { s.net.Break(one.id, other.id) }},
		{"slow connection", func() { s.net.Delay(one.id, other.id, 200*time.Millisecond) }},
		{"slow disk", func() { s.disks[one.id].Delay(time.Duration(s.random.IntN(400)) * time.Millisecond) }},
		{"clock", func() { one.off.Add(int64(time.Duration(s.random.IntN(20)-10) * time.Second)) }},
		{"restart", func() { s.restart(one, last) }},
		{"snapshot", func() { s.try(one.Snapshot()) }},
		{"transfer", func() { s.briefly(func(ctx context.Context) { _ = one.Transfer(ctx, other.id) }) }}, // may be refused
		{"leave and join", func() { s.leaveAndJoin(one, other) }},
	}
	kind := kinds[s.random.IntN(len(kinds))]
	s.counts[kind.name]++
	kind.do()
	time.Sleep(last)
	s.net.Heal()
	s.net.Delay(one.id, other.id, 0)
	s.disks[one.id].Delay(0)
	one.off.Store(0)
	time.Sleep(time.Duration(s.random.IntN(4000)) * time.Millisecond)
}

func (s *soak) try(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

func (s *soak) briefly(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	f(ctx)
}

// leaveAndJoin removes a member and adds it again with its old data.
func (s *soak) leaveAndJoin(one, by *member) {
	s.until(one.id+" is removed", func() bool {
		var err error
		s.briefly(func(ctx context.Context) { err = by.Remove(ctx, one.id) })
		return err == nil
	})
	s.until(one.id+" is a voter", func() bool {
		var err error
		s.briefly(func(ctx context.Context) {
			if err = by.AddLearner(ctx, one.id, one.address); err == nil {
				err = by.Promote(ctx, one.id)
			}
		})
		return err == nil
	})
}
