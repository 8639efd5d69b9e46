package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
)

// headsModel is the model of the ready heads, without a bound or a store: a job is ready if its state is
// pending, and the next job is the least by (priority, number).
type headsModel struct {
	s      *Store
	fs     vfs.FS
	bound  int
	tx     *Tx
	jobs   []*modelJob
	queues []string
}

type modelJob struct {
	id       job.ID
	queue    string
	priority uint32
	number   uint64
	state    job.State
}

func (m *headsModel) open(t *rapid.T) {
	s, err := Open("store", Options{FS: m.fs, headsKept: m.bound})
	if err != nil {
		t.Fatal(err)
	}
	s.gen.recentJobs.bound = 1000 // a few records
	m.s = s
}

func (m *headsModel) next(queue string) *modelJob {
	var best *modelJob
	for _, j := range m.jobs {
		if j.queue != queue || j.state != job.Pending {
			continue
		}
		if best == nil || slices.Compare([]uint64{uint64(j.priority), j.number}, []uint64{uint64(best.priority), best.number}) < 0 {
			best = j
		}
	}
	return best
}

// compare asks for the next job of a queue and returns the model's.
func (m *headsModel) compare(t *rapid.T, queue string) *modelJob {
	want := m.next(queue)
	id, ok, err := m.tx.NextReady(queue)
	switch {
	case err != nil:
		t.Fatal(err)
	case ok != (want != nil):
		t.Fatalf("queue %s: a job is ready: %v, in the model: %v", queue, ok, want)
	case ok && id != want.id:
		t.Fatalf("queue %s: next is %s, in the model %v", queue, id, want)
	}
	return want
}

func (m *headsModel) put(t *rapid.T, j *modelJob, change func(*job.Job)) {
	stored, err := m.tx.Job(j.id)
	if err != nil {
		t.Fatal(err)
	}
	change(stored)
	if err := m.tx.PutJob(stored, started); err != nil {
		t.Fatal(err)
	}
	j.state, j.priority = stored.State, stored.Priority
}

// wander moves a job to another queue, to another shard or back from one. A job on another shard has no state
// in the model.
func (m *headsModel) wander(t *rapid.T, step, queue string, pick func(...job.State) *modelJob) {
	const away = job.State(0)
	states := []job.State{job.Pending, job.Scheduled, job.Cancelled}
	if step == "arrive" {
		states = []job.State{away}
	}
	is := pick(states...)
	if is == nil {
		return
	}
	j, err := m.tx.Job(is.id)
	switch {
	case err != nil:
	case step == "move":
		err = m.tx.MoveJob(j, queue)
		is.queue = queue
	case step == "leave":
		err = m.tx.ForwardJob(j, 7, "far")
		is.state = away
	default:
		j := &job.Job{Id: is.id[:], Queue: queue, State: job.Pending, Priority: is.priority}
		err = m.tx.AdmitJob(j)
		is.queue, is.state, is.number = queue, job.Pending, j.Number
	}
	if err != nil {
		t.Fatal(err)
	}
}

// step makes one change within an entry.
func (m *headsModel) step(t *rapid.T) {
	queue := rapid.SampledFrom(m.queues).Draw(t, "queue")
	pick := func(states ...job.State) *modelJob {
		var among []*modelJob
		for _, j := range m.jobs {
			if slices.Contains(states, j.state) {
				among = append(among, j)
			}
		}
		if len(among) == 0 {
			return nil
		}
		return rapid.SampledFrom(among).Draw(t, "job")
	}
	step := rapid.SampledFrom([]string{"create", "create", "create", "fetch", "fetch", "fetch", "return", "take", "priority", "look", "move", "move", "leave", "arrive"}).Draw(t, "step")
	switch step {
	case "create":
		j := newJob(len(m.jobs)+1, queue)
		j.Priority = rapid.Uint32Range(0, job.Priorities-1).Draw(t, "priority")
		if rapid.IntRange(0, 4).Draw(t, "scheduled") == 0 {
			j.State = job.Scheduled
		}
		if err := m.tx.CreateJob(j, enqueued); err != nil {
			t.Fatal(err)
		}
		m.jobs = append(m.jobs, &modelJob{idOf(len(m.jobs) + 1), queue, j.Priority, j.Number, j.State})
	case "fetch":
		if j := m.compare(t, queue); j != nil {
			m.put(t, j, func(j *job.Job) { j.State, j.Lease = job.Active, lease(5) })
		}
	case "return": // a promotion or an undelivered fetch: an old number becomes ready
		if j := pick(job.Active, job.Scheduled); j != nil {
			m.put(t, j, func(j *job.Job) { j.State = job.Pending })
		}
	case "take": // a job deep in the queue goes
		if j := pick(job.Pending); j != nil {
			m.put(t, j, func(j *job.Job) { j.State = job.Cancelled })
		}
	case "priority":
		priority := rapid.Uint32Range(0, job.Priorities-1).Draw(t, "priority")
		if j := pick(job.Pending); j != nil {
			m.put(t, j, func(j *job.Job) { j.Priority = priority })
		}
	case "look":
		m.compare(t, queue)
	case "move", "leave", "arrive":
		m.wander(t, step, queue, pick)
	}
}

// TestHeadsAreTheLeastReadyJobs compares NextReady with a plain minimum over all jobs. Its bounds are so
// small that it takes every path: entries of several changes, jobs added and removed beyond those in memory,
// restarts anywhere.
func TestHeadsAreTheLeastReadyJobs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &headsModel{fs: vfs.NewMem(), bound: rapid.IntRange(1, 4).Draw(t, "bound"), queues: []string{"a", "a.b"}}
		m.open(t)
		defer func() { _ = m.s.Close() }()
		for range rapid.IntRange(1, 20).Draw(t, "entries") {
			m.tx = begin(m.s)
			for range rapid.IntRange(0, 12).Draw(t, "changes") {
				m.step(t)
			}
			for _, queue := range m.queues {
				m.compare(t, queue)
			}
			if err := m.tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				if err := m.s.Close(); err != nil {
					t.Fatal(err)
				}
				m.open(t)
			}
			m.checkCommitted(t)
		}
	})
}

func (m *headsModel) checkCommitted(t *rapid.T) {
	v := m.s.Snapshot()
	defer v.Close()
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	for _, queue := range m.queues {
		n := 0
		for _, j := range m.jobs {
			if j.queue == queue && j.state == job.Pending {
				n++
			}
		}
		if got := m.s.Fetchable(queue); got != n {
			t.Fatalf("queue %s: %d fetchable, in the model %d", queue, got, n)
		}
		for _, l := range m.levels(queue) {
			if len(l.list) > m.bound {
				t.Fatalf("queue %s holds %d heads, the bound is %d", queue, len(l.list), m.bound)
			}
		}
	}
}

func (m *headsModel) levels(queue string) []level {
	if q := m.s.queues[queue]; q != nil {
		return q.heads.levels[:]
	}
	return nil
}

// TestHeadsAtTheirBound drains backlogs just below, at and above the bound, and
// at a multiple of it, in one entry and over many.
func TestHeadsAtTheirBound(t *testing.T) {
	t.Parallel()
	for _, backlog := range []int{headsKept - 1, headsKept, headsKept + 1, 2*headsKept + 1} {
		for _, perEntry := range []int{1, backlog} {
			t.Run(fmt.Sprintf("%d by %d", backlog, perEntry), func(t *testing.T) {
				t.Parallel()
				s := openClosing(t)
				update(t, s, func(tx *Tx) {
					for n := range backlog {
						create(t, tx, n+1, "q")
					}
				})
				for n := 0; n < backlog; {
					update(t, s, func(tx *Tx) {
						for range perEntry {
							n++
							if got, want := nextReady(t, tx, "q"), fmt.Sprint(n); got != want {
								t.Fatalf("next ready is %s, want %s", got, want)
							}
							activate(t, tx, idOf(n), 1e9)
						}
					})
				}
				update(t, s, func(tx *Tx) {
					if got := nextReady(t, tx, "q"); got != "none" {
						t.Errorf("next ready is %s", got)
					}
				})
			})
		}
	}
}

func TestHeadsRefuseWhatCannotBe(t *testing.T) {
	t.Parallel()
	l := &level{}
	must(t, l.add(head{number: 5}, 4))
	if l.add(head{number: 5}, 4) == nil {
		t.Error("a job became ready twice")
	}
	if l.remove(6) == nil {
		t.Error("a job that was not ready was removed")
	}
}
