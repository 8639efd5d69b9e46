package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// fairness is who a job is for in its queue.
func fairness(f *Faults, r *api.EnqueueRequest, n *op.NewJob) {
	if r.FairnessKey != "" {
		if err := op.CheckFairnessKey(r.FairnessKey); err != nil {
			f.Invalid("fairness_key", "%v", err)
		}
		n.Opt().FairnessKey = r.FairnessKey
	}
	switch w := r.FairnessWeight; {
	case w == 0:
	case w < 0 || w > job.MaxFairnessWeight:
		f.Invalid("fairness_weight", "is %d; it takes 1 to %d", w, job.MaxFairnessWeight)
	case r.FairnessKey == "":
		f.Invalid("fairness_weight", "goes with fairness_key, which is missing")
	default:
		n.Opt().FairnessWeight = uint32(w)
	}
}
