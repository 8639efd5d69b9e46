package view

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
)

// documentEnqueue fills in the fields that the job's enqueue request set.
func documentEnqueue(doc *api.Job, j *job.Job) error {
	doc.UniqueKey = optional(j.Options.GetUniqueKey())
	if j.Options.GetUniqueKey() != "" {
		seconds := j.Options.GetUniquePeriodMs() / time.Second.Milliseconds()
		doc.UniquePeriod = &seconds
	}
	doc.ExpireAt = optionalTime(j.Detail.GetExpireNs())
	if j.Options.GetExpireAfterMs() > 0 {
		after := api.DurationOf(time.Duration(j.Options.GetExpireAfterMs()) * time.Millisecond)
		doc.ExpireAfter = &after
	}
	var err error
	if doc.ParentID, err = jobText(j.Options.GetParentId()); err != nil {
		return fmt.Errorf("parent of job number %d: %w", j.Number, err)
	}
	if doc.ReplayOf, err = jobText(j.Options.GetReplayOf()); err != nil {
		return fmt.Errorf("job number %d continues a job: %w", j.Number, err)
	}
	doc.FairnessKey, doc.Provider, doc.Model = optional(j.FairnessKey), optional(j.Options.GetProvider()), optional(j.Options.GetModel())
	doc.FairnessWeight = positive(j.FairnessWeight)
	doc.CostEstimateUSD = positiveCost(j.Options.GetCostEstimateNanoUsd())
	return nil
}

// jobText converts a job's id to text, or returns nil if there is no id.
func jobText(id []byte) (*string, error) {
	if len(id) == 0 {
		return nil, nil
	}
	known, err := job.IDFromBytes(id)
	if err != nil {
		return nil, err
	}
	return optional(known.String()), nil
}

// positive returns nil for 0, which means "none" in a record.
func positive(n uint32) *int {
	if n == 0 {
		return nil
	}
	return count(&n)
}

func positiveCost(nano int64) *money.Nano {
	if nano == 0 {
		return nil
	}
	cost := money.Nano(nano)
	return &cost
}
