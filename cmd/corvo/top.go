package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

const (
	// topTimeout bounds one look at a slow server.
	topTimeout = 5 * time.Second
	// topMostJobs bounds the active jobs in one request; of more, top shows the longest running ones.
	topMostJobs = searchPage
	// topLeastInterval keeps a short --interval from loading a server.
	topLeastInterval = 100 * time.Millisecond
)

// look is a server's status at one time.
type look struct {
	At      time.Time          `json:"at"`
	Cluster *api.ClusterStatus `json:"cluster,omitempty"` // absent if this key may not see it
	Queues  []queueLook        `json:"queues"`
	Workers []workerLook       `json:"workers"`
}

// queueLook is a queue and its rates since the previous look.
type queueLook struct {
	api.Queue
	In   *float64 `json:"enqueued_per_second"` // null: there is no previous look
	Done *float64 `json:"completed_per_second"`
}

// workerLook is a worker and its jobs, the longest running first.
type workerLook struct {
	api.Worker
	Jobs []api.Job `json:"jobs"`
}

// newTop makes the command that shows a server live, or prints it once if no terminal is attached.
func newTop() *cobra.Command {
	r := &remote{}
	interval := 2 * time.Second
	cmd := &cobra.Command{
		Use: "top", Short: "Watch workers, queues and throughput live", Args: cobra.NoArgs,
		Long: "Watch workers, queues and throughput live. Keys: up and down scroll, tab selects the other table, left and right\n" +
			"select the sort column, r reverses the order, q quits.\n" +
			"Into a pipe or a file the command prints the tables once.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < topLeastInterval {
				return misusef("--interval is %v; it must be at least %v", interval, topLeastInterval)
			}
			c, err := r.client(client.WithRetries(0), client.WithTimeout(topTimeout))
			if err != nil {
				return err
			}
			defer c.Close()
			first, err := lookAt(cmd.Context(), c, nil)
			if err != nil {
				return err
			}
			if r.output == outputJSON || !onTerminal() {
				return tell(r, cmd, first, showLook)
			}
			return watch(cmd.Context(), c, first, interval)
		},
	}
	r.bind(cmd)
	cmd.Flags().DurationVar(&interval, "interval", interval, "time between two updates")
	return cmd
}

// lookAt reads a server's status. It computes rates since the previous look.
func lookAt(ctx context.Context, c *client.Client, before *look) (l look, err error) {
	queues, err := c.Queues(ctx, client.Read{Eventual: true})
	if err != nil {
		return l, err
	}
	l.At = time.Now()
	workers, err := c.Workers(ctx, client.Read{Eventual: true})
	if err != nil && hidden(err) == nil {
		return l, err
	}
	most := topMostJobs
	active, err := c.Search(ctx, api.SearchRequest{SearchFilter: api.SearchFilter{State: []string{"active"}}, Sort: "started_at", Order: "asc", Limit: &most}, client.Read{Eventual: true})
	if err != nil && hidden(err) == nil {
		return l, err
	}
	cluster, err := c.ClusterStatus(ctx)
	switch {
	case err == nil:
		l.Cluster = &cluster
	case hidden(err) == nil:
		return l, err
	}
	l.Queues = queueLooks(queues, before, l.At)
	l.Workers = workerLooks(workers, active.Jobs)
	return l, nil
}

func queueLooks(queues []api.Queue, before *look, now time.Time) []queueLook {
	all := make([]queueLook, len(queues))
	for i, q := range queues {
		all[i].Queue = q
		if before == nil {
			continue
		}
		at := slices.IndexFunc(before.Queues, func(was queueLook) bool { return was.Name == q.Name && was.CreatedAt == q.CreatedAt })
		seconds := now.Sub(before.At).Seconds()
		if at < 0 || seconds <= 0 {
			continue
		}
		was := before.Queues[at]
		in := float64(q.Enqueued-was.Enqueued) / seconds
		// Retention removes old completed jobs, so that the number may fall.
		finished := float64(max(q.Completed-was.Completed, 0)) / seconds
		all[i].In, all[i].Done = &in, &finished
	}
	return all
}

// workerLooks assigns the active jobs to their workers. It assigns jobs whose worker has no name, or is
// unknown to this node, to one without a name.
func workerLooks(workers []api.Worker, active []api.Job) []workerLook {
	all := make([]workerLook, len(workers))
	at := map[string]int{}
	for i, w := range workers {
		all[i] = workerLook{Worker: w, Jobs: []api.Job{}}
		at[w.ID] = i
	}
	for _, j := range active {
		id := maybe(j.WorkerID, texts)
		i, ok := at[id]
		if !ok {
			i = len(all)
			at[id] = i
			all = append(all, workerLook{Worker: api.Worker{ID: id, Hostname: maybe(j.Hostname, texts), Queues: []string{}}, Jobs: []api.Job{}})
		}
		all[i].Jobs = append(all[i].Jobs, j)
		all[i].Active = max(all[i].Active, int64(len(all[i].Jobs)))
	}
	slices.SortStableFunc(all, func(a, b workerLook) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// showLook prints one look as tables.
func showLook(w io.Writer, l look) {
	fmt.Fprintln(w, clusterLine(l))
	fmt.Fprintln(w)
	showList(w, l.Queues, topQueues)
	fmt.Fprintln(w)
	showList(w, workerRows(l), topWorkers(l.At))
}

// watch shows a server until a key or a signal ends it.
func watch(ctx context.Context, c *client.Client, first look, interval time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	looks := make(chan looked)
	go func() {
		before := first
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(interval):
			}
			l, err := lookAt(ctx, c, &before)
			if err == nil {
				before = l
			}
			select {
			case looks <- looked{l, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	s, err := openScreen()
	if err != nil {
		return err
	}
	defer s.close()
	v := newView(first)
	sized := time.NewTicker(topSizeEvery)
	defer sized.Stop()
	for {
		if err := s.draw(v); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-sized.C: // the terminal may have been resized
		case l := <-looks:
			v.take(l)
		case k, open := <-s.keys:
			if !open || v.press(k) {
				return nil
			}
		}
	}
}

// looked is a look, or the error of the attempt.
type looked struct {
	look
	err error
}
