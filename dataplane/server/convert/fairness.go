package convert

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// fairness checks the fairness key and weight of a job or a schedule. An empty key means no key, and a weight
// of 0 no weight. A weight needs a key.
func fairness(f *Faults, key string, weight int) (string, uint32) {
	if key != "" {
		if err := op.CheckFairnessKey(key); err != nil {
			f.Invalid("fairness_key", "%v", err)
		}
	}
	switch {
	case weight < 0 || weight > job.MaxFairnessWeight:
		f.Invalid("fairness_weight", "is %d; it takes 1 to %d", weight, job.MaxFairnessWeight)
		return key, 0
	case weight != 0 && key == "":
		f.Invalid("fairness_weight", "goes with fairness_key, which is missing")
	}
	return key, uint32(weight)
}
