package op_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// waiting is the model's record of a job with dependencies.
type waiting struct {
	id     []byte
	of     map[string]bool // those that do not count as completed
	policy job.DependencyPolicy
	dueNs  int64
	state  job.State
}

// hears updates the job after one of its dependencies has settled.
func (m *waiting) hears(id string, outcome job.State, nowNs int64) {
	switch {
	case !m.of[id] || m.state == job.Dead:
	case outcome == job.Completed || m.policy == job.DependencyIgnore:
		delete(m.of, id)
		m.promote(nowNs)
	case m.policy == job.DependencyHold:
		m.state = job.Held
	default:
		m.state = job.Dead
	}
}

func (m *waiting) promote(nowNs int64) {
	if m.state == job.Scheduled && len(m.of) == 0 && m.dueNs <= nowNs {
		m.state = job.Pending
	}
}

// dependHistory holds jobs that depend on each other, and their expected states.
type dependHistory struct {
	*world
	r       *rapid.T
	ids     [][]byte // of all jobs, as they were made
	waits   []*waiting
	leased  []*op.Leased
	settled map[string]job.State
}

// In any history a job may run exactly if all its dependencies have settled as its policy requires and it is
// due.
func TestJobsRunWhenWhatTheyDependOnAllows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		store, err := state.Open("store", state.Options{FS: vfs.NewMem()})
		if err != nil {
			r.Fatal(err)
		}
		defer store.Close()
		h := &dependHistory{
			world:   &world{t: t, clockNs: epochNs, store: store, machine: op.NewMachine(store)},
			r:       r,
			settled: map[string]job.State{},
		}
		steps := []func(){h.enqueue, h.depend, h.depend, h.fetchSome, h.settleOne, h.pass}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			steps[rapid.IntRange(0, len(steps)-1).Draw(r, "step")]()
			h.resolve()
			h.tell()
			h.compare()
		}
		h.check()
	})
}

func (h *dependHistory) enqueue() {
	o := h.newJobs("q", rapid.IntRange(1, 4).Draw(h.r, "jobs"))
	for _, nj := range o.Jobs {
		nj.Retry.MaxAttempts = 1
	}
	h.apply(o)
	h.ids = append(h.ids, o.Meta.Ids...)
}

// depend creates a job that depends on some existing jobs, settled or not.
func (h *dependHistory) depend() {
	if len(h.ids) == 0 {
		return
	}
	o := h.newJobs("after", 1)
	m := &waiting{id: o.Meta.Ids[0], of: map[string]bool{}, state: job.Scheduled}
	m.policy = job.DependencyPolicy(rapid.IntRange(0, 2).Draw(h.r, "policy"))
	some := rapid.SliceOfNDistinct(rapid.IntRange(0, len(h.ids)-1), 1, min(len(h.ids), 5), rapid.ID[int])
	for _, i := range some.Draw(h.r, "of") {
		dependOn(o, h.ids[i])
		m.of[string(h.ids[i])] = true
	}
	if rapid.Bool().Draw(h.r, "later") {
		m.dueNs = h.clockNs + int64(time.Minute)
	}
	o.Jobs[0].ScheduledNs, o.Jobs[0].Opt().DependencyPolicy = m.dueNs, m.policy
	one[*op.EnqueueResult](h.world, o)
	h.ids, h.waits = append(h.ids, m.id), append(h.waits, m)
}

func (h *dependHistory) fetchSome() {
	h.leased = append(h.leased, one[*op.FetchResult](h.world, h.fetch("q", 2)).Jobs...)
}

func (h *dependHistory) settleOne() {
	if len(h.leased) == 0 {
		return
	}
	l := h.leased[0]
	h.leased = h.leased[1:]
	if rapid.Bool().Draw(h.r, "well") {
		h.apply(ack(l))
		h.settled[string(l.Id)] = job.Completed
	} else {
		h.apply(h.failing(l))
		h.settled[string(l.Id)] = job.Dead
	}
}

// pass moves the clock and promotes due jobs.
func (h *dependHistory) pass() {
	h.clockNs += int64(40 * time.Second)
	due, err := h.store.Due(state.TimerScheduled, h.clockNs, job.MaxDutyItems)
	if err != nil {
		h.r.Fatal(err)
	}
	for _, id := range due {
		h.apply(&op.Promote{JobIds: [][]byte{id[:]}})
	}
	for _, m := range h.waits {
		m.promote(h.clockNs)
	}
}

// tell reports settled jobs to the model. Jobs that die of it are reported in turn.
func (h *dependHistory) tell() {
	for again := true; again; {
		again = false
		for _, m := range h.waits {
			for _, id := range h.ids {
				if outcome, ok := h.settled[string(id)]; ok {
					m.hears(string(id), outcome, h.clockNs)
				}
			}
			if m.state == job.Dead && h.settled[string(m.id)] != job.Dead {
				h.settled[string(m.id)] = job.Dead
				again = true
			}
		}
	}
}

func (h *dependHistory) compare() {
	for i, m := range h.waits {
		j := h.job(m.id)
		if j.State != m.state || m.state != job.Dead && int(j.BlockedBy) != len(m.of) {
			h.r.Fatalf("waiter %d is %s, blocked by %d; it should be %s, blocked by %d", i, j.State.Word(), j.BlockedBy, m.state.Word(), len(m.of))
		}
	}
}
