package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// workload draws ops for a shard. It looks at the model so that most ops can succeed, and spoils some on
// purpose: stale tokens, wrong workers, unknown ids, repeated requests.
type workload struct {
	rng    *rand.Rand
	sh     *shard
	m      *model
	queues []string
	idle   []string // queues that mostly have no jobs, so that they can be deleted
	weight []int    // of each row of draws, in this history
	keyed  bool     // its jobs have fairness keys
	keys   []string // client idempotency keys; few, so that they collide
	sent   []op.Op  // ops with an idempotency key, to be sent again
	agents bool     // it draws jobs of agents
}

func newWorkload(rng *rand.Rand, sh *shard) *workload {
	w := &workload{rng: rng, sh: sh, m: sh.model, agents: rng.IntN(2) == 0}
	for i := range 2 {
		w.idle = append(w.idle, fmt.Sprintf("idle-%d-%d", sh.number, i))
	}
	for i := range 1 + rng.IntN(4) {
		w.queues = append(w.queues, fmt.Sprintf("queue-%d-%d", sh.number, i))
	}
	// Each history prefers some ops and leaves out others, so that combinations that are rare in an even mix
	// become common in one history.
	for _, d := range draws() {
		w.weight = append(w.weight, d.weight*pick(w, []int{0, 1, 1, 1, 5}))
	}
	if w.agents {
		w.preferAgents()
	}
	w.weight[0] = max(w.weight[0], 1) // without jobs there is no history
	w.keyed = w.chance(2)
	for i := range 5 {
		w.keys = append(w.keys, fmt.Sprintf("key-%d", i))
	}
	return w
}

// draw is one kind of op that a workload draws, and its weight in relation to the others. Each kind of op has
// a row.
type draw struct {
	kind   string
	weight int
	op     func(*workload) op.Op
}

func draws() []draw {
	return []draw{
		{"enqueue", 30, (*workload).enqueue},
		{"fetch", 30, (*workload).fetch},
		{"ack", 25, (*workload).ack},
		{"fail", 10, (*workload).fail},
		{"heartbeat", 8, (*workload).heartbeat},
		{"set-queue", 3, (*workload).setQueue},
		{"promote", 6, (*workload).promote},
		{"reclaim", 6, (*workload).reclaim},
		{"purge-idempotency", 2, (*workload).purgeIdempotency},
		{"start-term", 1, (*workload).startTerm},
		{"trim-feed", 1, (*workload).trimFeed},
		{"create-key", 1, (*workload).createKey},
		{"revoke-key", 1, (*workload).revokeKey},
		{"set-key", 1, (*workload).setKey},
		{"rotate-key", 1, (*workload).rotateKey},
		{"trim-usage", 2, (*workload).trimUsage},
		{"record-usage", 4, (*workload).recordUsage},
		{"delete-queue", 3, (*workload).deleteQueue},
		{"raise-level", 1, (*workload).raiseLevel},
		{"set-members", 1, (*workload).setMembers},
		{"move-jobs", 5, (*workload).moveJobs},
		{"deliver", 6, (*workload).deliver},
		{"trim-outbox", 2, (*workload).trimOutbox},
		{"cancel-jobs", 5, (*workload).cancelJobs},
		{"retry-jobs", 4, (*workload).retryJobs},
		{"hold-jobs", 3, (*workload).holdJobs},
		{"release-jobs", 3, (*workload).releaseJobs},
		{"reject-jobs", 2, (*workload).rejectJobs},
		{"delete-jobs", 3, (*workload).deleteJobs},
		{"expire-jobs", 4, (*workload).expireJobs},
		{"release-unique", 3, (*workload).releaseUnique},
		{"purge-jobs", 3, (*workload).purgeJobs},
		{"seal-batch", 3, (*workload).sealBatch},
		{"purge-batches", 2, (*workload).purgeBatches},
		{"resolve-dependents", 5, (*workload).resolveDependents},
		{"put-schedule", 2, (*workload).putSchedule},
		{"pause-schedule", 1, (*workload).pauseSchedule},
		{"delete-schedule", 1, (*workload).deleteSchedule},
		{"run-schedules", 3, (*workload).runSchedules},
		{"clear-queue", 2, (*workload).clearQueue},
		{"sweep-queue", 5, (*workload).sweepQueue},
		{"replenish", 2, (*workload).replenish},
		{"set-settings", 1, (*workload).setSettings},
		{"put-resource", 8, (*workload).putResource},
		{"delete-resource", 2, (*workload).deleteResource},
		{"open-gate", 4, (*workload).openGate},
		{"score-job", 2, (*workload).scoreJob},
		{"replay-job", 3, (*workload).replayJob},
		{"set-alerts", 3, (*workload).setAlerts},
		{"report-deliveries", 3, (*workload).reportDeliveries},
		{"purge-deliveries", 2, (*workload).purgeDeliveries},
		{"queue-delivery", 2, (*workload).queueDelivery},
		{"seed-prices", 1, (*workload).seedPrices},
		{"turn-budgets", 3, (*workload).turnBudgets},
		{"balance-budgets", 1, (*workload).balanceBudgets},
		{"record-requests", 1, (*workload).recordRequests},
		{"trim-audit", 1, (*workload).trimAudit},
		{"start-bulk", 3, (*workload).startBulk},
		{"run-bulk", 6, (*workload).runBulk},
		{"cancel-bulk", 1, (*workload).cancelBulk},
		{"purge-bulks", 1, (*workload).purgeBulks},
		{again, 3, (*workload).again},
	}
}

// again names the row that repeats an op instead of drawing a kind of op.
const again = "again"

// next draws one op.
func (w *workload) next() op.Op {
	total := 0
	for _, weight := range w.weight {
		total += weight
	}
	n := w.rng.IntN(total)
	for i, weight := range w.weight {
		if n -= weight; n < 0 {
			o := draws()[i].op(w)
			if draws()[i].kind != again {
				o = w.audited(o)
			}
			if o.GetMeta().GetIdempotency() != nil {
				w.sent = append(w.sent, o)
			}
			return o
		}
	}
	panic("unreachable: the weights add up")
}

// chance returns true once in n times.
func (w *workload) chance(n int) bool { return w.rng.IntN(n) == 0 }

// oftenFew returns a number from 1 to few, and once in ten times one up to many.
func (w *workload) oftenFew(few, many int) int {
	if w.chance(10) {
		few = many
	}
	return 1 + w.rng.IntN(few)
}

func pick[T any](w *workload, from []T) T { return from[w.rng.IntN(len(from))] }

func (w *workload) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
	return b
}

func (w *workload) meta() *op.Meta {
	meta := &op.Meta{Principal: pick(w, []string{"alice", "bob"})}
	if w.chance(20) {
		meta.Idempotency = &op.Idempotency{Key: pick(w, w.keys), RequestHash: w.bytes(32)}
	}
	return meta
}

// request returns a meta that mostly has a request id, so that the shard recognises a repeat.
func (w *workload) request() *op.Meta {
	meta := w.meta()
	if !w.chance(6) {
		meta.RequestId = w.bytes(16)
	}
	return meta
}

func (w *workload) id(queue string) job.ID {
	return job.NewID(w.m.clockNs/int64(time.Millisecond), queue, job.Entropy(w.bytes(9)))
}

// jobQueue draws the queue of a new job; once in a while one that may have been deleted before.
func (w *workload) jobQueue() string {
	if w.chance(200) {
		return pick(w, w.idle)
	}
	return pick(w, w.queues)
}

func (w *workload) fetch() op.Op {
	o := &op.Fetch{
		Meta:     w.meta(),
		Queues:   []string{pick(w, w.queues)},
		Count:    uint32(w.oftenFew(4, 100)),
		WorkerId: fmt.Sprintf("worker-%d", w.rng.IntN(3)),
		LeaseMs:  1 + w.rng.Int64N(int64(15*time.Second/time.Millisecond)),
	}
	if q := pick(w, w.queues); w.chance(2) && q != o.Queues[0] {
		o.Queues = append(o.Queues, q)
	}
	o.Meta.LeaseSeed = w.bytes(16)
	return o
}

// some draws the ids of up to n jobs for which ok returns true, and now and then an id that no job has.
func (w *workload) some(n int, ok func(*modelJob) bool) []job.ID {
	var ids []job.ID
	for _, j := range byNumber(w.m) {
		if ok(j) {
			ids = append(ids, j.id)
		}
	}
	w.rng.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
	ids = ids[:min(len(ids), n)]
	if len(ids) == 0 || w.chance(15) {
		ids = append(ids, w.id("nowhere"))
	}
	return ids
}

// proof draws a lease proof for a job: mostly right, sometimes stale.
func (w *workload) proof(id job.ID) *op.LeaseProof {
	p := &op.LeaseProof{Id: id[:]}
	j := w.m.jobs[id]
	switch n := w.rng.IntN(20); {
	case j == nil || n == 0:
		p.Token = w.bytes(16)
	case n == 1:
		p.WorkerId = "somebody-else"
	case n < 4:
		p.WorkerId = j.worker
	case n < 7:
		// An empty proof is good as long as no lease of the job has expired.
	default:
		p.Token = j.token
	}
	return p
}

// held draws mostly active jobs, and some that are no longer active.
func (w *workload) held(n int) []job.ID {
	return w.some(n, func(j *modelJob) bool {
		return j.state == job.Active || (j.state != job.Pending && w.chance(10))
	})
}

func (w *workload) ack() op.Op {
	o := &op.Ack{Meta: w.meta()}
	for _, id := range w.held(1 + w.rng.IntN(4)) {
		item := &op.AckItem{Proof: w.proof(id), Usage: w.usage(), ExitChain: w.chance(8)}
		if w.chance(2) {
			item.Result = &job.Blob{Data: []byte(`{"ok":true}`)}
		}
		if w.agents {
			w.iterate(item, id)
		}
		o.Items = append(o.Items, item)
		if w.chance(10) {
			o.Items = append(o.Items, proto.Clone(item).(*op.AckItem))
		}
	}
	return o
}

func (w *workload) fail() op.Op {
	o := &op.Fail{Meta: w.request()}
	for _, id := range w.held(1 + w.rng.IntN(2)) {
		item := &op.FailItem{Proof: w.proof(id), Error: "it broke", Usage: w.usage()}
		switch w.rng.IntN(8) {
		case 0, 1:
			item = &op.FailItem{Proof: w.proof(id), Reason: op.FailReason_FAIL_REASON_UNDELIVERED}
		case 2:
			item.Reason = op.FailReason_FAIL_REASON_SHUTDOWN
		}
		o.Items = append(o.Items, item)
	}
	return o
}

func (w *workload) heartbeat() op.Op {
	o := &op.Heartbeat{Meta: w.request()}
	for _, id := range w.held(1 + w.rng.IntN(3)) {
		item := &op.HeartbeatItem{Proof: w.proof(id), Usage: w.usage()}
		if w.chance(2) {
			item.Progress = &job.Blob{Data: []byte(`{"current":1}`)}
		}
		if w.chance(3) {
			item.Checkpoint = &job.Blob{Data: []byte(`{"offset":7}`)}
		}
		if w.chance(3) {
			item.LeaseMs = 1 + w.rng.Int64N(30000)
		}
		o.Items = append(o.Items, item)
	}
	return o
}

func idBytes(ids []job.ID) [][]byte {
	all := make([][]byte, len(ids))
	for i := range ids {
		all[i] = ids[i][:]
	}
	return all
}

func (w *workload) promote() op.Op {
	return &op.Promote{Meta: &op.Meta{Principal: "duty"}, JobIds: idBytes(w.some(5, func(j *modelJob) bool {
		return j.state == job.Scheduled || j.state == job.Retrying || w.chance(30)
	}))}
}

func (w *workload) reclaim() op.Op {
	return &op.Reclaim{Meta: &op.Meta{Principal: "duty"}, JobIds: idBytes(w.some(5, func(j *modelJob) bool {
		return j.state == job.Active || w.chance(30)
	}))}
}

func (w *workload) purgeIdempotency() op.Op {
	id := recordID(pick(w, []string{"alice", "bob"}), pick(w, w.keys))
	return &op.PurgeIdempotency{Meta: &op.Meta{Principal: "duty"}, RecordIds: [][]byte{id}}
}

func (w *workload) startTerm() op.Op {
	return &op.StartTerm{Meta: &op.Meta{Principal: "engine"}}
}

func (w *workload) trimFeed() op.Op {
	return &op.TrimFeed{Meta: &op.Meta{Principal: "duty"}, FirstSeq: 1 + w.rng.Uint64N(w.m.nextNumber*4)}
}

func (w *workload) raiseLevel() op.Op {
	return &op.RaiseLevel{Meta: &op.Meta{Principal: "engine"}, Level: 1 + uint32(w.rng.IntN(maxLevel))}
}

// again repeats an op that carried an idempotency key, sometimes with another request under the same key.
func (w *workload) again() op.Op {
	if len(w.sent) == 0 {
		return w.enqueue()
	}
	o := proto.Clone(pick(w, w.sent)).(op.Op)
	if w.chance(4) {
		o.GetMeta().Idempotency.RequestHash = w.bytes(32)
	}
	return o
}
