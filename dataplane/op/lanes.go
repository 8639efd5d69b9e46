package op

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Where jobs of a queue have fairness keys, the queue shares itself out among them.
// The store knows whose turn it is, and what each key has had (see claims.go); here
// stands which keys there may be.

// lanesRetry is when an enqueue with a fairness key too many is worth another try.
const lanesRetry = 10 * time.Second

// checkFairness looks at who a job counts for in its queue.
func (nj *NewJob) checkFairness(p *problems, i int) {
	key, weight := nj.GetFairnessKey(), nj.GetFairnessWeight()
	if key != "" {
		p.item("jobs", i, "fairness_key", CheckFairnessKey(key))
	}
	p.item("jobs", i, "fairness_weight", checkFairnessWeight(key, weight))
}

// checkFairnessWeight checks the weight that goes with a key; 0 is none.
func checkFairnessWeight(key string, weight uint32) error {
	switch {
	case weight > job.MaxFairnessWeight:
		return fmt.Errorf("is %d; it takes 1 to %d", weight, job.MaxFairnessWeight)
	case weight != 0 && key == "":
		return errors.New("goes with fairness_key, which is missing")
	}
	return nil
}

// CheckFairnessKey checks a key that a job may have.
func CheckFairnessKey(key string) error {
	switch {
	case key == "":
		return errors.New("is missing")
	case key == state.EveryKey:
		return fmt.Errorf("is %q, which stands for every key in limit rules: choose another", key)
	case strings.ContainsRune(key, 0):
		return errors.New("has a zero byte: leave it out")
	}
	return job.CheckText(key, job.MaxFairnessKey)
}

// admitLanes refuses jobs that would bring more fairness keys than there may be. Those
// count that have a job or a past which matters still.
func (o *Enqueue) admitLanes(tx *state.Tx) error {
	if tx.CanAddLanes(2 * len(o.Jobs)) {
		return nil // whatever their keys are: a job brings its own, and that of the jobs without
	}
	type name struct{ queue, key string }
	var fresh map[name]struct{}
	for _, nj := range o.Jobs {
		key := nj.FairnessKey
		if key == "" || tx.Lane(nj.Queue, key) != nil {
			continue
		}
		if fresh == nil {
			fresh = map[name]struct{}{}
		}
		fresh[name{nj.Queue, key}] = struct{}{}
		if tx.Queue(nj.Queue).GetLanes() == 0 {
			fresh[name{nj.Queue, ""}] = struct{}{} // the jobs without a key count as one, too
		}
	}
	if len(fresh) == 0 || tx.CanAddLanes(len(fresh)) {
		return nil
	}
	err := api.Errorf(api.Overloaded, "there is no room for %d more fairness keys: at most %d may be in use in all queues; use fewer keys, or try again when jobs of others have ended", len(fresh), job.MaxLanes)
	err.RetryAfter = lanesRetry
	return err
}
