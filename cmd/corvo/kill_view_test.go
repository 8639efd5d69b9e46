package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

const (
	viewKillClients = 8
	viewKillJobs    = 400 // at most, between two kills
	viewKillLease   = 3600
)

// TestKillLeavesTheViewTrue kills the real binary while its view follows a load, and at times during a
// rebuild of the view. Each time the view goes on from its file and shows the same as a view built from the
// store.
func TestKillLeavesTheViewTrue(t *testing.T) {
	t.Parallel()
	kills := 5
	if n, err := strconv.Atoi(os.Getenv("CORVO_KILLS")); err == nil {
		kills = n
	}
	ctx, cancel := context.WithTimeout(t.Context(), killTimeout+time.Duration(kills)*20*time.Second)
	defer cancel()
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--snapshot-threshold", "1048576", "--log-level", "info"}
	p := startServer(t, args...)
	key := adminKey(t, dir)
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	went := 0
	for range kills {
		c := newClient(t, p.endpoint, key)
		rebuilding := random.IntN(3) == 0
		load, target := stir(t, ctx, c, rebuilding), 1+random.Int64N(viewKillJobs)
		eventually(t, ctx, "some load", func() bool { return load.done.Load() >= target || t.Failed() })
		load.dying.Store(true)
		p.Kill(t)
		p = startServer(t, args...)
		c = newClient(t, p.endpoint, key)
		follows(t, ctx, c)
		before := shown(t, ctx, c)
		if built := strings.Count(p.Log(), "the view is rebuilt"); built == 0 {
			went++
		} else if !rebuilding {
			t.Fatalf("the view was built again:\n%s", p.Log())
		}
		if _, err := c.RebuildView(ctx); err != nil {
			t.Fatal(err)
		}
		after := shown(t, ctx, c)
		for what, text := range after {
			if before[what] != text {
				t.Errorf("the view that went on has\n%s\nand the one that was built\n%s", before[what], text)
			}
		}
		if len(before) != len(after) {
			t.Errorf("the view that went on has %d jobs and queues, the one that was built %d", len(before), len(after))
		}
	}
	t.Logf("%d kills; the view went on after %d", kills, went)
}

// stirred is a load that ends with the process.
type stirred struct {
	done  atomic.Int64
	dying atomic.Bool // errors do not count
}

// stir starts clients that make all kinds of changes until the process dies.
func stir(t *testing.T, ctx context.Context, c *client.Client, rebuilding bool) *stirred {
	s := &stirred{}
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for who := range viewKillClients {
		clients.Go(func() {
			for n := 0; ; n++ {
				if err := stirOnce(ctx, c, fmt.Sprintf("stirred-%d", who%3), n); err != nil {
					if !s.dying.Load() {
						t.Error(err)
					}
					return
				}
				s.done.Add(1)
			}
		})
	}
	go func() {
		for rebuilding {
			if _, err := c.RebuildView(ctx); err != nil {
				break
			}
		}
		clients.Wait() // they end with the process
		cancel()
	}()
	return s
}

func stirOnce(ctx context.Context, c *client.Client, queue string, n int) error {
	once, wait := 1, 0
	_, err := c.Enqueue(ctx, api.EnqueueRequest{
		Queue: queue, Payload: json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"%0*d"}`, n, 10+n%500, n)),
		MaxRetries: &once, Tags: map[string]string{"n": strconv.Itoa(n)},
	})
	if err != nil || n%4 == 0 {
		return err
	}
	job, err := c.Fetch(ctx, api.FetchRequest{Queues: []string{queue}, WorkerID: "w", Timeout: &wait, LeaseDuration: viewKillLease})
	if err != nil || job == nil {
		return err
	}
	switch n % 4 {
	case 1:
		return c.Ack(ctx, job.JobID, api.AckRequest{LeaseToken: job.LeaseToken, Result: json.RawMessage(`{"ok":true}`)})
	case 2:
		_, err = c.Fail(ctx, job.JobID, api.FailRequest{LeaseToken: job.LeaseToken, Error: "no", Backtrace: "here"})
	}
	return err // the third job stays with its worker
}

// follows waits until the view has caught up with the state.
func follows(t *testing.T, ctx context.Context, c *client.Client) {
	t.Helper()
	eventually(t, ctx, "the view to follow", func() bool {
		_, err := c.Search(ctx, api.SearchRequest{}, client.Read{Strong: true})
		return err == nil
	})
}

// shown returns all that the view shows of jobs and queues.
func shown(t *testing.T, ctx context.Context, c *client.Client) map[string]string {
	t.Helper()
	all := map[string]string{}
	note := func(what string, doc any) {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if all[what] != "" {
			t.Errorf("%s is shown twice", what)
		}
		all[what] = string(text)
	}
	for _, job := range searchAll(t, ctx, c, "") {
		note(job.ID, job)
	}
	queues, err := c.Queues(ctx, client.Read{Strong: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range queues {
		note("queue "+queue.Name, queue)
	}
	return all
}
