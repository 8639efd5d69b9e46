// Package from03 copies the unfinished work of a running Corvo 0.3 to a server of this version: jobs,
// settings of queues, providers, budgets, schedules, webhooks and the names of keys. It speaks HTTP to both
// servers and needs the files of neither, so that either may be anywhere.
//
// A run may be repeated: each copied job carries its old id in a tag, and settings are found by name. The
// package imports api, api/client, billing/money and the limits of dataplane/job.
package from03

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/corvo/corvo/api/client"
)

// IDTag is the tag that holds a copied job's id on the original, so that people find the job by the id in
// their logs and a repeated run copies it only once.
const IDTag = "corvo03_id"

// Config says which server to copy from and which to copy to.
type Config struct {
	Source *Source
	Target *client.Client

	DryRun bool      // read and report, and write nothing
	Keys   io.Writer // receives a line for each new key: its name, a tab, its secret; nil creates no keys

	// Progress is called as jobs are copied; nil = no calls.
	Progress func(done, total int)
}

// run is one copy under way.
type run struct {
	Config
	report Report
	copied map[string]copied // jobs that exist on the target, by their old ids
}

// ErrOriginal is the error of a run that did not begin.
var ErrOriginal = errors.New("cannot read the original")

// Copy copies the settings and the jobs, except completed and cancelled ones, and then counts the jobs of
// both sides again. With DryRun it only reports what it would copy. It returns an error if the run could not
// continue, because one of the servers could not be asked; the report names single jobs and settings that the
// target refused. The error wraps ErrOriginal if the original could not be read at first, and nothing was
// copied.
//
// Copy copies webhooks and schedules after the jobs, because a copied job should be no event to a webhook,
// and a schedule should not run while the jobs of its last run are still on their way.
func Copy(ctx context.Context, cfg Config) (*Report, error) {
	r := &run{Config: cfg, copied: map[string]copied{}}
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"copy providers", r.providers},
		{"copy queues", r.queues},
		{"copy budgets", r.budgets},
		{"copy jobs", r.jobs},
		{"copy schedules", r.schedules},
		{"copy webhooks", r.webhooks},
		{"copy keys", r.keys},
		{"compare the counts", r.compare},
	}
	if err := r.Source.check(ctx); err != nil {
		return &r.report, fmt.Errorf("%w: %w", ErrOriginal, err)
	}
	for _, s := range steps {
		if err := s.do(ctx); err != nil {
			return &r.report, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return &r.report, nil
}
