// Package from03 copies what is unfinished on a running Corvo 0.3 to a server of this
// version: jobs, settings of queues, providers, budgets, schedules, webhooks and the names of
// keys. It speaks HTTP to both and needs neither's files, so either may be anywhere.
//
// A run may be repeated: each job that was copied carries its old id in a tag, and settings
// are found by name. It imports api, api/client, billing/money and the limits of dataplane/job.
package from03

import (
	"context"
	"fmt"
	"io"

	"github.com/corvo/corvo/api/client"
)

// IDTag is the tag that holds a copied job's id on the original, so that people find it by
// the id in their logs and a repeated run copies it only once.
const IDTag = "corvo03_id"

// Config says what to copy from where.
type Config struct {
	Source *Source
	Target *client.Client

	DryRun bool      // read and report, and write nothing
	Keys   io.Writer // receives a line for each key that is made: its name, a tab, its secret; nil makes no keys

	// Progress is called as jobs are copied; nil tells nobody.
	Progress func(done, total int)
}

// run is one copy under way.
type run struct {
	Config
	report Report
	copied map[string]copied // jobs that are here already or by now, by their old ids
}

// Copy copies everything and then counts both sides again. An error means that the run could
// not go on, because one of the servers could not be asked; single jobs and settings that
// the target refuses are in the report instead.
//
// Webhooks and schedules come after the jobs: a copied job should be no event to a webhook,
// and a schedule should not run while the jobs of its last run are still on their way.
func Copy(ctx context.Context, cfg Config) (*Report, error) {
	r := &run{Config: cfg, copied: map[string]copied{}}
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"look at the original", r.Source.check},
		{"copy providers", r.providers},
		{"copy queues", r.queues},
		{"copy budgets", r.budgets},
		{"copy jobs", r.jobs},
		{"copy schedules", r.schedules},
		{"copy webhooks", r.webhooks},
		{"copy keys", r.keys},
		{"compare the counts", r.compare},
	}
	for _, s := range steps {
		if err := s.do(ctx); err != nil {
			return &r.report, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return &r.report, nil
}
