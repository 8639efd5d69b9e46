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

// Jobs with fairness keys share their queue among the keys. The store knows which key is served next and how
// much of the queue each has received (see attempt_reservation.go). This file checks the keys and limits
// their number.

// lanesRetry is the time after which a client may repeat an enqueue that had too many fairness keys.
const lanesRetry = 10 * time.Second

// checkFairness checks a job's fairness key and weight.
func (nj *NewJob) checkFairness(p *problems, i int) {
	key, weight := nj.GetFairnessKey(), nj.GetFairnessWeight()
	if key != "" {
		p.item("jobs", i, "fairness_key", CheckFairnessKey(key))
	}
	p.item("jobs", i, "fairness_weight", checkFairnessWeight(key, weight))
}

// checkFairnessWeight checks the weight that belongs to a key; 0 means that none is given.
func checkFairnessWeight(key string, weight uint32) error {
	switch {
	case weight > job.MaxFairnessWeight:
		return fmt.Errorf("is %d; it takes 1 to %d", weight, job.MaxFairnessWeight)
	case weight != 0 && key == "":
		return errors.New("goes with fairness_key, which is missing")
	}
	return nil
}

// CheckFairnessKey checks the fairness key of a job.
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

// admitLanes refuses jobs with OVERLOADED if their new lanes might bring the lanes of all queues above
// job.MaxLanes. Scheduled jobs count too, although their lanes begin later. A lane counts while it has ready
// or active jobs, or a history that still matters.
func (o *Enqueue) admitLanes(tx *state.Tx) error {
	if tx.CanAddLanes(2 * len(o.Jobs)) {
		return nil // a job adds at most two lanes: of its own key, and of the jobs without a key
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
	err := api.Errorf(api.Overloaded, "%d more fairness keys exceed the maximum of %d in all queues: use fewer keys, or try again after jobs of other keys have ended", len(fresh), job.MaxLanes)
	err.RetryAfter = lanesRetry
	return err
}
