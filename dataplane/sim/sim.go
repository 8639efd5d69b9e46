// Package sim plays seeded random histories against the real state machine and an independent model of it. It
// draws everything that happens from one seed in one goroutine, so that a failure can be replayed. It drives
// the machine with the same encoded entries that Raft would apply.
//
// The words of this package:
//
//   - A history is one run. It consists of steps. In each step, one of its one to three shards commits
//     entries.
//   - A shard has a log and two replicas, which are stores that follow the log. The steady replica applies
//     every entry at once and never stops, unless the two change roles. The troubled replica lags, crashes (and
//     loses data that it had not flushed), restarts cleanly and is replaced by an image of the steady one.
//     Shards send each other ops, such as moved jobs and the outcomes of jobs.
//   - A workload draws the ops of one shard, that is, chooses them by the seed.
//   - A network lies between a workload and the log. It delays ops, loses answers and repeats ops. Leaders
//     change; the clock of each may be ahead or behind. A leader that falls takes ops with it that were never
//     committed.
//   - A model says for each op which result is right, and which records the store of a shard should hold.
//   - The ledger counts across all shards of a history.
//   - The transcript is the hash of everything that happened.
//   - A function named compare... compares a store with the model. A function named inspect... checks invariants
//     of the stores, with or without the model.
//
// The simulation checks the following. Whenever both replicas of a shard have applied the same entries, they
// must be equal byte for byte, and both must agree with the model. In some histories a view follows the first
// shard. The simulation reads, closes and opens it, and trims the feed past it. Each list must show the jobs
// as of one entry, and of none older than the list before it showed. At the end of a history the duties run
// until nothing is due. Then no job, batch or other record may still wait for something that has already
// happened.
package sim

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

// start is the models' clock before the first entry, whose own clock is about a minute later.
const start = int64(1_700_000_000) * int64(time.Second)

// maxShards bounds the number of shards of a history.
const maxShards = 3

// simulation is one history.
type simulation struct {
	rng        *rand.Rand
	clockNs    int64
	shards     []*shard
	acked      map[job.ID]bool // jobs that a client knows to be enqueued
	watched    *watched        // nil in histories without a view
	transcript hash.Hash       // of everything that happened, in order
	kinds      map[string]int  // ops applied, by kind
	ledger     *ledger
}

// Outcome is the result of a history.
type Outcome struct {
	// Transcript is the hash of every entry, every answer and every final state.
	Transcript [sha256.Size]byte
	Entries    int
	// Kinds counts the ops applied, by the names of their kinds.
	Kinds map[string]int
	View  ViewOutcome
}

// Run plays a history of the given number of steps. If viewDir is set, a view follows it, with its file in
// that directory on the disk. The error of a failed history names the step.
func Run(seed uint64, steps int, viewDir string) (Outcome, error) {
	s, err := newSimulation(seed)
	if err != nil {
		return Outcome{}, err
	}
	if viewDir != "" {
		if err := s.watch(viewDir, seed); err != nil {
			return Outcome{}, err
		}
	}
	for step := range steps {
		if err := s.step(); err != nil {
			return Outcome{}, fmt.Errorf("step %d of %d: %w", step, steps, err)
		}
	}
	if err := s.finish(); err != nil {
		return Outcome{}, fmt.Errorf("at the end: %w", err)
	}
	out := Outcome{Transcript: [sha256.Size]byte(s.transcript.Sum(nil)), Kinds: s.kinds}
	for _, sh := range s.shards {
		out.Entries += len(sh.log)
	}
	if s.watched != nil {
		out.View = s.watched.out
	}
	return out, nil
}

func newSimulation(seed uint64) (*simulation, error) {
	s := &simulation{
		rng: rand.New(rand.NewPCG(seed, 0)), clockNs: start + int64(time.Minute),
		acked: map[job.ID]bool{}, transcript: sha256.New(), kinds: map[string]int{}, ledger: newLedger(),
	}
	n := 1
	if s.rng.IntN(2) == 0 {
		n = 2 + s.rng.IntN(maxShards-1)
	}
	models := make([]*model, n)
	for i := range models {
		models[i] = newModel(start, uint32(i), models, s.ledger)
	}
	for i, m := range models {
		sh, err := newShard(s, uint32(i), m)
		if err != nil {
			return nil, err
		}
		s.shards = append(s.shards, sh)
	}
	return s, nil
}

// step advances the clock and lets one shard do a step, and then the view.
func (s *simulation) step() error {
	switch n := s.rng.IntN(60); {
	case n == 0: // a day passes, or a week, so that idempotency keys or deliveries are forgotten
		s.clockNs += int64(25*time.Hour) * []int64{1, 1, 7}[s.rng.IntN(3)]
	case n < 40:
		s.clockNs += s.rng.Int64N(int64(3 * time.Second))
	}
	if s.rng.IntN(8) == 0 && s.watched != nil {
		s.watched.sleeps = !s.watched.sleeps
	}
	sh := s.shards[s.rng.IntN(len(s.shards))]
	if s.rng.IntN(6) == 0 {
		s.clockNs = max(s.clockNs, sh.work.edge())
	}
	if err := sh.step(); err != nil {
		return fmt.Errorf("shard %d: %w", sh.number, err)
	}
	if s.watched != nil {
		if err := s.stepView(); err != nil {
			return fmt.Errorf("the view: %w", err)
		}
	}
	return s.inspectPlaces()
}

// finish lets the shards come to rest, makes every troubled replica catch up, and checks everything.
func (s *simulation) finish() error {
	if err := s.rest(); err != nil {
		return err
	}
	for _, sh := range s.shards {
		if err := sh.catchUp(sh.troubled, uint64(len(sh.log))); err != nil {
			return fmt.Errorf("shard %d: %w", sh.number, err)
		}
		if err := sh.inspect(); err != nil {
			return fmt.Errorf("shard %d: %w", sh.number, err)
		}
		if err := sh.inspectDocuments(); err != nil {
			return fmt.Errorf("shard %d: %w", sh.number, err)
		}
		if err := record(s.transcript, sh.steady.store); err != nil {
			return fmt.Errorf("shard %d: %w", sh.number, err)
		}
	}
	if err := errors.Join(s.inspectPlaces(), s.balance()); err != nil {
		return err
	}
	if s.watched != nil {
		if err := s.inspectView(); err != nil {
			return fmt.Errorf("the view: %w", err)
		}
	}
	for _, sh := range s.shards {
		if err := cmp.Or(sh.steady.store.Close(), sh.troubled.store.Close()); err != nil {
			return err
		}
	}
	return nil
}

// deliverAll delivers every op that is on its way between shards, and reports whether there was any. An op
// that a shard sends meanwhile may be left.
func (s *simulation) deliverAll() (any bool, err error) {
	for _, to := range s.shards {
		for _, from := range s.shards {
			for from != to {
				o, err := to.nextDelivery(from)
				if err != nil {
					return any, err
				}
				if o == nil {
					break
				}
				any = true
				if err := to.commit(o); err != nil {
					return any, fmt.Errorf("shard %d: %w", to.number, err)
				}
			}
		}
	}
	return any, nil
}
