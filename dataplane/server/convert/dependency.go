package convert

import (
	"fmt"

	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// dependencies converts the ids of the jobs that a job depends on; the caller adds their shards. It refuses a
// repeated id, because the client probably meant another job.
func dependencies(f *Faults, ids []string) []*op.Dependency {
	if len(ids) > job.MaxDependencies {
		f.Invalid("depends_on", "has %d entries; at most %d are taken", len(ids), job.MaxDependencies)
		return nil
	}
	var out []*op.Dependency
	seen := make(map[job.ID]struct{}, len(ids))
	for i, given := range ids {
		id, err := job.ParseID(given)
		if err != nil {
			f.Invalid(fmt.Sprintf("depends_on[%d]", i), "%s is not a job id", text.Quote(given))
			continue
		}
		if _, twice := seen[id]; twice {
			f.Invalid(fmt.Sprintf("depends_on[%d]", i), "%s is there twice", id)
		}
		seen[id] = struct{}{}
		out = append(out, &op.Dependency{JobId: id[:]})
	}
	return out
}

// dependencyPolicy converts the policy for a job whose dependency does not succeed; the default is fail.
func dependencyPolicy(f *Faults, word string) job.DependencyPolicy {
	if word == "" {
		return job.DependencyFail
	}
	policy, ok := job.ParseDependencyPolicy(word)
	if !ok {
		f.Invalid("dependency_policy", "%s is not a policy: use fail, hold or ignore", text.Quote(word))
	}
	return policy
}
