package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// queueCommands makes the commands about queues.
func queueCommands() []*cobra.Command {
	return []*cobra.Command{
		newQueues(),
		onPossibleQueue("pause", "Stop fetches from a queue; enqueues go on", "paused", (*client.Client).PauseQueue),
		onPossibleQueue("resume", "Resume a paused or drained queue", "resumed", (*client.Client).ResumeQueue),
		onQueue("clear", "Delete the waiting jobs of a queue, except held ones", func(ctx context.Context, c *client.Client, queue string) (api.Cleared, error) {
			return c.ClearQueue(ctx, queue)
		}, showCleared),
		newDrain(), newDestroy(),
	}
}

// onQueue makes a command about one queue.
func onQueue[A any](verb, short string, ask func(ctx context.Context, c *client.Client, queue string) (A, error), show func(io.Writer, A)) *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use: verb + " QUEUE", Short: short, Args: cobra.ExactArgs(1),
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (A, error) {
			return ask(cmd.Context(), c, args[0])
		}, show),
	}
	r.bind(cmd)
	return cmd
}

// onPossibleQueue makes a command about a queue that need not exist: the server creates it, so that it can be
// paused before its first job. The command tells the person that the queue is new, in case its name is
// misspelled.
func onPossibleQueue(verb, short, did string, ask func(c *client.Client, ctx context.Context, queue string) error) *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use: verb + " QUEUE", Short: short, Args: cobra.ExactArgs(1),
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Status, error) {
			// Ignore other errors of this read, such as a missing permission of the key, because the read
			// serves only the notice below.
			_, look := c.Queue(cmd.Context(), args[0], client.Read{Strong: true})
			if err := ask(c, cmd.Context(), args[0]); err != nil {
				return api.Status{}, err
			}
			if api.CodeOf(look) == api.NotFound {
				fmt.Fprintf(cmd.ErrOrStderr(), "corvo: queue %s did not exist and was created\n", args[0])
			}
			return done(did), nil
		}, showStatus),
	}
	r.bind(cmd)
	return cmd
}

func showCleared(w io.Writer, c api.Cleared) {
	if c.Status != "cleared" {
		fmt.Fprintf(w, "%s: %s removed so far; the server continues\n", c.Status, jobsText(c.Removed))
		return
	}
	fmt.Fprintf(w, "%s: %s removed\n", c.Status, jobsText(c.Removed))
}

func jobsText(n uint64) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

func newQueues() *cobra.Command {
	r := &remote{}
	cmd := group(&cobra.Command{Use: "queues", Short: "Show queues and change their settings"})
	r.bind(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List queues by name", Args: cobra.NoArgs,
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) ([]api.Queue, error) {
				return c.Queues(cmd.Context(), client.Read{})
			}, showQueues),
		},
		&cobra.Command{
			Use: "get QUEUE", Short: "Show a queue with its settings", Args: cobra.ExactArgs(1),
			RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Queue, error) {
				return c.Queue(cmd.Context(), args[0], client.Read{})
			}, showQueue),
		},
		newQueueSet(r),
	)
	return cmd
}

func showQueues(w io.Writer, all []api.Queue) {
	showList(w, all, []column[api.Queue]{
		{"QUEUE", func(q api.Queue) string { return q.Name }},
		{"STATUS", func(q api.Queue) string { return q.Status }},
		{"PENDING", func(q api.Queue) string { return count(q.Pending) }},
		{"ACTIVE", func(q api.Queue) string { return count(q.Active) }},
		{"SCHEDULED", func(q api.Queue) string { return count(q.Scheduled) }},
		{"RETRYING", func(q api.Queue) string { return count(q.Retrying) }},
		{"HELD", func(q api.Queue) string { return count(q.Held) }},
		{"COMPLETED", func(q api.Queue) string { return count(q.Completed) }},
		{"DEAD", func(q api.Queue) string { return count(q.Dead) }},
		{"CANCELLED", func(q api.Queue) string { return count(q.Cancelled) }},
		{"OLDEST PENDING", func(q api.Queue) string { return maybe(q.OldestPendingAt, clock) }},
	})
}

func showQueue(w io.Writer, q api.Queue) {
	showQueues(w, []api.Queue{q})
	fmt.Fprintln(w)
	showKnown(w, q,
		column[api.Queue]{"CREATED", func(q api.Queue) string { return clock(q.CreatedAt) }},
		column[api.Queue]{"ENQUEUED", func(q api.Queue) string { return count(q.Enqueued) }},
		column[api.Queue]{"FAILED ATTEMPTS", func(q api.Queue) string { return count(q.Failed) }},
		column[api.Queue]{"UNIQUE LOCKS", func(q api.Queue) string { return count(q.UniqueLocks) }},
		column[api.Queue]{"MAX CONCURRENCY", func(q api.Queue) string { return maybe(q.MaxConcurrency, count) }},
		column[api.Queue]{"RATE LIMIT", func(q api.Queue) string { return maybe(q.RateLimit, count) }},
		column[api.Queue]{"RATE WINDOW", func(q api.Queue) string { return maybe(q.RateWindowMs, millis) }},
		column[api.Queue]{"PRIORITY AGEING", func(q api.Queue) string { return maybe(q.PriorityAgeingMs, millis) }},
		column[api.Queue]{"MAX LENGTH", func(q api.Queue) string { return maybe(q.MaxLength, count) }},
		column[api.Queue]{"ON FULL", func(q api.Queue) string { return q.OnFull }},
		column[api.Queue]{"PROVIDER", func(q api.Queue) string { return maybe(q.Provider, texts) }},
		column[api.Queue]{"RETENTION COMPLETED", func(q api.Queue) string {
			return retentionText(q, func(r *api.QueueRetention) api.Duration { return r.Completed })
		}},
		column[api.Queue]{"RETENTION DEAD", func(q api.Queue) string {
			return retentionText(q, func(r *api.QueueRetention) api.Duration { return r.Dead })
		}},
		column[api.Queue]{"RETENTION CANCELLED", func(q api.Queue) string {
			return retentionText(q, func(r *api.QueueRetention) api.Duration { return r.Cancelled })
		}},
	)
}

func retentionText(q api.Queue, of func(*api.QueueRetention) api.Duration) string {
	if q.Retention == nil {
		return ""
	}
	return string(of(q.Retention))
}

// newQueueSet makes the command that changes a queue's settings or creates a queue.
func newQueueSet(r *remote) *cobra.Command {
	var made edits[api.PutQueueRequest]
	cmd := &cobra.Command{
		Use: "set QUEUE", Short: "Change settings of a queue, or create it", Args: cobra.ExactArgs(1),
		Long: "Change settings of a queue, or create it. " + partialChange,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Queue, error) {
			// A concurrent change usually concerns other settings. Keep it, and apply the flags to the
			// result.
			for try := 1; ; try++ {
				now, err := setQueue(cmd.Context(), c, args[0], made)
				if api.CodeOf(err) != api.PreconditionFailed || try == setTries {
					return now, err
				}
			}
		}, showQueue),
	}
	retention := func(r *api.PutQueueRequest) *api.QueueRetention {
		if r.Retention == nil {
			r.Retention = &api.QueueRetention{}
		}
		return r.Retention
	}
	made.bind(cmd,
		option("max-concurrency", "limit on active jobs", whole, func(r *api.PutQueueRequest) **int { return &r.MaxConcurrency }),
		option("rate-limit", "limit on jobs started in any --rate-window", whole, func(r *api.PutQueueRequest) **int { return &r.RateLimit }),
		option("rate-window", "length of the window of --rate-limit, 1s to 24h", inMillis, func(r *api.PutQueueRequest) **int64 { return &r.RateWindowMs }),
		set("priority-ageing", "waiting time that raises a job by one priority", span, func(r *api.PutQueueRequest) *api.Duration { return &r.PriorityAgeing }),
		option("max-length", "limit on waiting jobs", tokens, func(r *api.PutQueueRequest) **int64 { return &r.MaxLength }),
		set("on-full", "action above --max-length: reject or drop_oldest", words, func(r *api.PutQueueRequest) *string { return &r.OnFull }),
		set("provider", "model provider of jobs that name none", words, func(r *api.PutQueueRequest) *string { return &r.Provider }),
		set("retention-completed", "retention of completed jobs, such as 48h or forever", durationText, func(r *api.PutQueueRequest) *api.Duration { return &retention(r).Completed }),
		set("retention-dead", "retention of dead jobs", durationText, func(r *api.PutQueueRequest) *api.Duration { return &retention(r).Dead }),
		set("retention-cancelled", "retention of cancelled jobs", durationText, func(r *api.PutQueueRequest) *api.Duration { return &retention(r).Cancelled }),
	)
	return cmd
}

// setTries is the number of attempts to change settings while others change them.
const setTries = 10

// setQueue changes a queue's current settings; it returns PRECONDITION_FAILED if somebody else changes them
// meanwhile.
func setQueue(ctx context.Context, c *client.Client, queue string, made edits[api.PutQueueRequest]) (api.Queue, error) {
	was, err := c.Queue(ctx, queue, client.Read{Strong: true})
	if err != nil && api.CodeOf(err) != api.NotFound {
		return was, err
	}
	var req api.PutQueueRequest
	if err == nil {
		if err := asRequest(was, &req); err != nil {
			return was, fmt.Errorf("the existing queue: %w", err)
		}
		req.PriorityAgeing = api.Duration(maybe(was.PriorityAgeingMs, millis))
	}
	made.apply(&req)
	if limited, window := req.RateLimit != nil && *req.RateLimit != 0, req.RateWindowMs != nil && *req.RateWindowMs != 0; limited != window {
		return was, misusef("--rate-limit and --rate-window go together: give both, such as --rate-limit 100 --rate-window 1m, or none for both")
	}
	if err == nil && was.Version == 0 {
		return c.PutQueue(ctx, queue, req) // a proxy has removed the version from the answer
	}
	return c.PutQueueAt(ctx, queue, req, was.Version)
}

// newDrain makes the command that waits until a queue has no active jobs.
func newDrain() *cobra.Command {
	r := &remote{}
	var most time.Duration
	cmd := &cobra.Command{
		Use: "drain QUEUE", Short: "Pause a queue and wait for its active jobs to end", Args: cobra.ExactArgs(1),
		Long: "Pause a queue and wait for its active jobs to end. The exit code is 0 when they have ended, and 3 when --timeout\n" +
			"is over first. The queue stays paused in both cases, until corvo resume.",
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Status, error) {
			if err := checkTimeout(most); err != nil {
				return api.Status{}, err
			}
			return drain(cmd, c, args[0], most)
		}, showStatus),
	}
	r.bind(cmd)
	cmd.Flags().DurationVar(&most, "timeout", 0, "longest wait; 0 for no limit")
	return cmd
}

func drain(cmd *cobra.Command, c *client.Client, queue string, most time.Duration) (api.Status, error) {
	// The server would create an unknown queue. Refuse it here, because its name is probably misspelled and a
	// person who drains a queue relies on its jobs having ended.
	if _, err := c.Queue(cmd.Context(), queue, client.Read{Strong: true}); err != nil {
		return api.Status{}, err
	}
	status, err := c.DrainQueue(cmd.Context(), queue)
	if err != nil || status == api.QueueDrained {
		return done(status), err
	}
	var first int64
	var q api.Queue
	err = poll(cmd, most, func(p *progress) (bool, error) {
		// Read strongly, because a node that has not applied the drain yet would report the queue as resumed.
		var err error
		switch q, err = c.Queue(cmd.Context(), queue, client.Read{Strong: true}); {
		case err != nil:
			return false, err
		case q.Status == api.QueueDrained:
			return true, nil
		case q.Status != api.QueueDraining:
			return false, fmt.Errorf("queue %s is %s: another client changed it during the drain", queue, q.Status)
		}
		first = max(first, q.Active)
		p.show(uint64(first-q.Active), uint64(first), fmt.Sprintf("%d of %s are active", q.Active, queue))
		return false, nil
	}, func() string {
		return fmt.Sprintf("queue %s still has %s active after %v and stays paused: drain it again, or run corvo resume %s", queue, jobsText(uint64(q.Active)), most, queue)
	})
	if err != nil {
		return api.Status{}, err
	}
	return done(q.Status), nil
}

func newDestroy() *cobra.Command {
	r := &remote{}
	var confirm, ifSettled bool
	cmd := &cobra.Command{
		Use: "destroy QUEUE --confirm", Short: "Delete a queue with all its jobs", Args: cobra.ExactArgs(1),
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Status, error) {
			if !confirm {
				return api.Status{}, misusef("this permanently deletes queue %s with all its jobs: give --confirm to do it", args[0])
			}
			return done("deleted"), c.DeleteQueue(cmd.Context(), args[0], ifSettled)
		}, showStatus),
	}
	r.bind(cmd)
	cmd.Flags().BoolVar(&confirm, "confirm", false, "confirm the deletion")
	cmd.Flags().BoolVar(&ifSettled, "if-settled", false, "refuse if a job has not settled")
	return cmd
}
