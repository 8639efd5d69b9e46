package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/corvo/corvo/engine"
)

// registers is the model of a history: writes to a register that return its previous value, and strong reads.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(access).register
			by[key] = append(by[key], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range by {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		in, out, was := input.(access), output.(seen), state.(int64)
		if !in.writes {
			return out.value == was, was
		}
		return out.unknown || out.value == was, in.value
	},
}

type access struct {
	register string
	writes   bool
	value    int64
}

type seen struct {
	value   int64
	unknown bool // it is unknown whether the write was made
}

// history records the clients' requests and the answers.
type history struct {
	mu       sync.Mutex
	begun    time.Time
	prefix   string // of the registers' names, because the registers of another history hold other values
	accesses []porcupine.Operation
	refused  int
}

func (h *history) note(client int, begun time.Time, in access, out seen) {
	ended := time.Since(h.begun).Nanoseconds()
	if out.unknown {
		ended = int64(1) << 62 // it may still happen
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accesses = append(h.accesses, porcupine.Operation{
		ClientId: client, Input: in, Call: begun.Sub(h.begun).Nanoseconds(), Output: out, Return: ended,
	})
}

// client writes and reads at random members until ctx ends.
func (h *history) client(ctx context.Context, id int, c *chaos) {
	random := rand.New(rand.NewPCG(c.seed, uint64(id)))
	for n := int64(1); ctx.Err() == nil; n++ {
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		// A register is used only for a while, because a write with an unknown outcome stays concurrent with
		// all that follow.
		in := access{register: h.prefix + strconv.Itoa(int(time.Since(h.begun)/(20*time.Second))*2+random.IntN(2)), writes: random.IntN(2) == 0, value: n*100 + int64(id)}
		g := c.pick(random)
		begun := time.Now()
		out, err := in.at(g)
		switch {
		case err == nil:
			h.note(id, begun, in, out)
		case in.writes && engine.Unknown(err):
			h.note(id, begun, in, seen{unknown: true})
		default:
			h.mu.Lock()
			h.refused++
			h.mu.Unlock()
		}
	}
}

func (a access) at(n *node) (seen, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if a.writes {
		before, _, err := engine.Propose[int64](ctx, n.Group, op{number: opWrite, key: fmt.Sprintf("%s=%d", a.register, a.value)})
		return seen{value: before}, err
	}
	if err := n.Verify(ctx); err != nil {
		return seen{}, err
	}
	return seen{value: n.machine.counter(a.register)}, nil
}

// chaos injects faults into a cluster, chosen by a seed.
type chaos struct {
	*cluster
	seed uint64
	mu   sync.Mutex // guards which nodes run
}

func (c *chaos) pick(random *rand.Rand) *node {
	for {
		c.mu.Lock()
		n := c.members[random.IntN(len(c.members))].node
		c.mu.Unlock()
		if n != nil {
			return n
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// harm injects one fault and undoes it after a while.
func (c *chaos) harm(random *rand.Rand) {
	one := c.members[random.IntN(len(c.members))]
	other := c.others(one)[random.IntN(len(c.members)-1)]
	last := time.Duration(random.IntN(8000)) * time.Millisecond
	switch random.IntN(7) {
	case 0:
		c.net.Isolate(one.id)
	case 1:
		c.net.Cut(one.id, other.id)
	case 2:
		c.net.Break(one.id, other.id)
	case 3:
		c.restart(one, last)
	case 4:
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_ = one.Transfer(ctx, other.id) // it may be refused
		cancel()
	case 5:
		if err := one.Snapshot(); err != nil {
			c.t.Error(err)
		}
	case 6:
		c.net.Delay(one.id, other.id, 200*time.Millisecond)
	}
	time.Sleep(last)
	c.net.Heal()
	c.net.Delay(one.id, other.id, 0)
	time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
}

// restart kills a member and starts it again. The machine loses everything that it had not flushed.
func (c *chaos) restart(m *member, after time.Duration) {
	c.mu.Lock()
	n := m.node
	m.node = nil
	c.mu.Unlock()
	n.machine.crash()
	if err := m.transport.Close(); err != nil {
		c.t.Error(err)
	}
	_ = n.Close(context.Background()) // the machine's Flush fails
	time.Sleep(after)
	fresh := &member{cluster: c.cluster, id: m.id, dir: m.dir, address: m.address}
	if err := fresh.tryStart(); err != nil {
		c.t.Fatalf("restart %s: %v", m.id, err)
	}
	c.mu.Lock()
	m.node, m.transport = fresh.node, fresh.transport
	c.mu.Unlock()
}

// TestHistoriesAreLinearizable runs partitions, one-way cuts, crashes, transfers and snapshots, and checks
// that the clients saw the results of a single machine.
func TestHistoriesAreLinearizable(t *testing.T) {
	for seed, size := range []int{3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			virtual(t, size, func(t *testing.T, c *cluster) { linearizable(t, c, uint64(seed)) })
		})
	}
}

func linearizable(t *testing.T, of *cluster, seed uint64) {
	c := &chaos{cluster: of, seed: seed}
	h := &history{begun: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), 75*time.Second)
	defer cancel()
	var clients sync.WaitGroup
	for id := range 5 {
		clients.Go(func() { h.client(ctx, id, c) })
	}
	random := rand.New(rand.NewPCG(seed, 99))
	for ctx.Err() == nil {
		c.harm(random)
	}
	clients.Wait()
	for _, m := range c.members {
		c.must(m.Verify(soon(t)))
	}
	if result, _ := porcupine.CheckOperationsVerbose(registers, h.accesses, 20*time.Second); result != porcupine.Ok {
		t.Errorf("%d accesses: %s", len(h.accesses), result)
	}
	t.Logf("%d accesses, %d refused", len(h.accesses), h.refused)
	if len(h.accesses) < 1000 || h.refused > len(h.accesses)/2 {
		t.Errorf("%d accesses, %d refused: the test shows little", len(h.accesses), h.refused)
	}
}
