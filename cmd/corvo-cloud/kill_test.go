package main

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

// TestKillKeepsTheBillExact kills a whole cloud under load several times, without warning. Afterwards the
// ledger equals the usage in the job documents: each attempt's usage once, to the nano-dollar.
func TestKillKeepsTheBillExact(t *testing.T) {
	t.Parallel()
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("CORVO_KILLS")); err == nil {
		kills = n
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	dir := t.TempDir()
	d := startDev(t, dir)
	for range kills {
		load := begin(ctx, t, d, 4)
		eventually(t, ctx, "some acks", func() bool { return load.acked.Load() >= 40 })
		d.Kill(t)
		load.end()
		d = startDev(t, dir)
	}
	load := begin(ctx, t, d, 2)
	eventually(t, ctx, "some acks", func() bool { return load.acked.Load() >= 10 })
	load.end()

	c, cloud := d.client(t), d.cloud(t)
	eventually(t, ctx, "the exact usage in the ledger", func() bool {
		report, err := cloud.Usage(ctx, "demo", client.UsageQuery{GroupBy: "queue"})
		if err != nil {
			return false
		}
		// Read the jobs second. An ack whose caller has left may still arrive, but the ledger's usage was in
		// a job first.
		got, jobs := report.Totals, sum(ctx, t, c)
		if got.CostUSD.Nano() > jobs.cost || got.Reports.Int64() > jobs.count {
			t.Fatalf("the ledger has %v in %s reports, the jobs have %v in %d", got.CostUSD, got.Reports, jobs.cost, jobs.count)
		}
		return jobs.count >= int64(40*kills) && got.CostUSD.Nano() == jobs.cost && got.Reports.Int64() == jobs.count && got.InputTokens.Int64() == jobs.tokens
	})
}

// load is a set of workers that take jobs through their lives until the cloud is gone.
type load struct {
	acked atomic.Int64
	stop  context.CancelFunc
	group sync.WaitGroup
}

func begin(ctx context.Context, t *testing.T, d dev, workers int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	l := &load{stop: cancel}
	c := d.client(t)
	for range workers {
		l.group.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "bill"}); err != nil {
					continue
				}
				job, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{"bill"}, WorkerID: "w"})
				if err != nil || job == nil {
					continue
				}
				err = c.Ack(ctx, job.JobID, api.AckRequest{LeaseToken: job.LeaseToken, Usage: &api.ReportedUsage{
					InputTokens: money.ReportedCount(n), Model: "m", Provider: "p", CostUSD: new(money.Reported(123 + n)),
				}})
				if err == nil {
					l.acked.Add(1)
				}
			}
		})
	}
	return l
}

func (l *load) end() { l.stop(); l.group.Wait() }

// used is the sum of the usage in job documents.
type used struct {
	count, tokens int64
	cost          money.Nano
}

// sum adds up the usage of every completed job, even if the ack was applied but never answered.
func sum(ctx context.Context, t *testing.T, c *client.Client) (u used) {
	t.Helper()
	for cursor := ""; ; {
		page, err := c.Search(ctx, api.SearchRequest{SearchFilter: api.SearchFilter{Queue: "bill", State: []string{"completed"}}, Limit: ptr(1000), Cursor: cursor}, client.Read{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			if j.Usage == nil {
				t.Fatalf("%s is completed without its usage", j.ID)
			}
			u.count++
			u.tokens += j.Usage.InputTokens
			u.cost += j.Usage.CostUSD
		}
		if cursor = page.Cursor; !page.HasMore {
			return u
		}
	}
}

func ptr[T any](v T) *T { return &v }
