package from03

import (
	"context"

	"github.com/corvo/corvo/api"
)

// compare counts both sides anew, queue by queue. It does not trust the counts of the run, so that a job that
// changed while it was copied shows as a difference.
func (r *run) compare(ctx context.Context) error {
	if r.DryRun {
		return nil
	}
	here := map[string]int{}
	if err := r.eachCopied(ctx, func(_ string, j *api.Job) { here[j.Queue]++ }); err != nil {
		return err
	}
	var there []queue
	if err := r.Source.get(ctx, "/api/v1/queues", &there); err != nil {
		return err
	}
	for _, q := range there {
		p, err := r.Source.search(ctx, q.Name, unfinished, 1, "")
		if err != nil {
			return err
		}
		r.report.Queues = append(r.report.Queues, Queue{Name: q.Name, There: p.Total, Here: here[q.Name], Differ: p.Total != here[q.Name]})
		delete(here, q.Name)
	}
	for name, n := range here { // a queue that the original no longer has
		r.report.Queues = append(r.report.Queues, Queue{Name: name, Here: n, Differ: true})
	}
	r.report.sortQueues()
	return nil
}
