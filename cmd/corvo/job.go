package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// jobCommands makes the commands about existing jobs.
func jobCommands() []*cobra.Command {
	return append(jobActions(), newBulk(), newWhy(), newInspect(), newHeld(), newSearch(), newMove(), newReplay(), newIterations(), newScores())
}

// onJob makes a command about one job.
func onJob[A any](verb, short string, ask func(cmd *cobra.Command, c *client.Client, id string) (A, error), show func(io.Writer, A)) *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{
		Use: verb + " ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (A, error) { return ask(cmd, c, args[0]) }, show),
	}
	r.bind(cmd)
	return cmd
}

func newWhy() *cobra.Command {
	return onJob("why", "Explain why a job does not run", func(cmd *cobra.Command, c *client.Client, id string) (api.Why, error) {
		return c.Why(cmd.Context(), id, client.Read{})
	}, showWhy)
}

func showWhy(w io.Writer, y api.Why) {
	showKnown(w, y,
		column[api.Why]{"JOB", func(y api.Why) string { return y.JobID }},
		column[api.Why]{"QUEUE", func(y api.Why) string { return y.Queue }},
		column[api.Why]{"STATE", func(y api.Why) string { return y.State }},
		column[api.Why]{"WAITS", func(y api.Why) string { return yes(y.Waiting) }},
		column[api.Why]{"IN LINE", func(y api.Why) string { return maybe(y.Position, positionText) }},
		column[api.Why]{"WORKERS", func(y api.Why) string { return maybe(y.Workers, count) }},
		column[api.Why]{"DEPENDS ON", awaitedText},
		column[api.Why]{"OUTCOME", func(y api.Why) string { return maybe(y.Outcome, texts) }},
		column[api.Why]{"LAST ERROR", func(y api.Why) string { return maybe(y.LastError, texts) }},
	)
	fmt.Fprintln(w)
	showList(w, y.Reasons, []column[api.WhyReason]{
		{"REASON", func(r api.WhyReason) string { return r.Reason }},
		{"NAME", func(r api.WhyReason) string { return r.Name }},
		{"UNTIL", func(r api.WhyReason) string { return maybe(r.Until, clock) }},
		{"MESSAGE", func(r api.WhyReason) string { return r.Message }},
	})
}

func positionText(p api.WhyPosition) string {
	text := fmt.Sprintf("%d of %d", p.Ahead+1, p.Of)
	if p.AtLeast {
		text = "at least " + text
	}
	if p.Gate != "" {
		text += " that wait for " + p.Gate
	}
	return text
}

func awaitedText(y api.Why) string {
	var all []string
	for _, d := range y.DependsOn {
		state := "not known here"
		if d.State != nil {
			state = *d.State
		}
		all = append(all, d.JobID+" ("+state+")")
	}
	if y.DependsOnMore {
		all = append(all, "perhaps others")
	}
	return strings.Join(all, ", ")
}

func newInspect() *cobra.Command {
	return onJob("inspect", "Show a job with all its fields and attempts", func(cmd *cobra.Command, c *client.Client, id string) (api.Job, error) {
		return c.Job(cmd.Context(), id, client.Read{})
	}, showJob)
}

func showJob(w io.Writer, j api.Job) {
	showKnown(w, j,
		column[api.Job]{"ID", func(j api.Job) string { return j.ID }},
		column[api.Job]{"QUEUE", func(j api.Job) string { return j.Queue }},
		column[api.Job]{"STATE", stateText},
		column[api.Job]{"HELD BY", func(j api.Job) string { return maybe(j.Hold, holdText) }},
		column[api.Job]{"HOLD REASON", func(j api.Job) string { return maybe(j.HoldReason, texts) }},
		column[api.Job]{"WAITS FOR", func(j api.Job) string { return maybe(j.WaitingFor, texts) }},
		column[api.Job]{"PRIORITY", func(j api.Job) string { return string(api.PriorityOf(j.Priority)) }},
		column[api.Job]{"ATTEMPT", func(j api.Job) string { return fmt.Sprintf("%d of %d", j.Attempt, j.MaxRetries) }},
		column[api.Job]{"CREATED", func(j api.Job) string { return clock(j.CreatedAt) }},
		column[api.Job]{"SCHEDULED", func(j api.Job) string { return maybe(j.ScheduledAt, clock) }},
		column[api.Job]{"STARTED", func(j api.Job) string { return maybe(j.StartedAt, clock) }},
		column[api.Job]{"LEASE UNTIL", func(j api.Job) string { return maybe(j.LeaseExpiresAt, clock) }},
		column[api.Job]{"COMPLETED", func(j api.Job) string { return maybe(j.CompletedAt, clock) }},
		column[api.Job]{"FAILED", func(j api.Job) string { return maybe(j.FailedAt, clock) }},
		column[api.Job]{"CANCELLED", func(j api.Job) string { return maybe(j.CancelledAt, clock) }},
		column[api.Job]{"EXPIRES", func(j api.Job) string { return maybe(j.ExpireAt, clock) }},
		column[api.Job]{"WORKER", func(j api.Job) string { return maybe(j.WorkerID, texts) }},
		column[api.Job]{"UNIQUE KEY", func(j api.Job) string { return maybe(j.UniqueKey, texts) }},
		column[api.Job]{"FAIRNESS KEY", func(j api.Job) string { return maybe(j.FairnessKey, texts) }},
		column[api.Job]{"BATCH", func(j api.Job) string { return maybe(j.BatchID, texts) }},
		column[api.Job]{"CHAIN", func(j api.Job) string { return maybe(j.ChainID, texts) }},
		column[api.Job]{"PARENT", func(j api.Job) string { return maybe(j.ParentID, texts) }},
		column[api.Job]{"REPLAY OF", func(j api.Job) string { return maybe(j.ReplayOf, texts) }},
		column[api.Job]{"TAGS", func(j api.Job) string { return pairsText(j.Tags) }},
		column[api.Job]{"HEADERS", func(j api.Job) string { return pairsText(j.Headers) }},
		column[api.Job]{"AGENT", func(j api.Job) string { return maybe(j.Agent, agentText) }},
		column[api.Job]{"COST USD", func(j api.Job) string { return usd(j.CostUSD) }},
		column[api.Job]{"USAGE", func(j api.Job) string { return maybe(j.Usage, usageText) }},
		column[api.Job]{"PAYLOAD", func(j api.Job) string { return jsonText(j.Payload) }},
		column[api.Job]{"PROGRESS", func(j api.Job) string { return jsonText(j.Progress) }},
		column[api.Job]{"CHECKPOINT", func(j api.Job) string { return jsonText(j.Checkpoint) }},
		column[api.Job]{"RESULT", func(j api.Job) string { return jsonText(j.Result) }},
		column[api.Job]{"LAST ERROR", func(j api.Job) string { return maybe(j.LastError, texts) }},
	)
	if len(j.Attempts) == 0 {
		return
	}
	fmt.Fprintln(w)
	showList(w, j.Attempts, []column[api.JobAttempt]{
		{"ATTEMPT", func(a api.JobAttempt) string { return count(a.Attempt) }},
		{"OUTCOME", func(a api.JobAttempt) string { return maybe(a.Outcome, texts) }},
		{"WORKER", func(a api.JobAttempt) string { return maybe(a.WorkerID, texts) }},
		{"STARTED", func(a api.JobAttempt) string { return maybe(a.StartedAt, clock) }},
		{"ENDED", func(a api.JobAttempt) string { return maybe(a.EndedAt, clock) }},
	})
}

func stateText(j api.Job) string {
	if j.Cancelling {
		return j.State + ", being cancelled"
	}
	return j.State
}

func holdText(h api.JobHold) string {
	if h.Name == nil {
		return h.By
	}
	return h.By + " " + *h.Name
}

func agentText(a api.JobAgent) string {
	text := "iterations " + bounded(count(a.Iteration), maybe(a.MaxIterations, count)) +
		", cost " + bounded(usd(a.TotalCostUSD), maybe(a.MaxCostUSD, usd)) + " USD"
	if a.IterationTimeout != nil {
		text += ", each at most " + string(*a.IterationTimeout)
	}
	return text
}

// bounded formats a value with its bound, if it has one.
func bounded(now, most string) string {
	if most == "" {
		return now
	}
	return now + " of " + most
}

func usageText(u api.Usage) string {
	text := fmt.Sprintf("%d input, %d output, %d cache creation, %d cache read tokens", u.InputTokens, u.OutputTokens, u.CacheCreationTokens, u.CacheReadTokens)
	if u.Model != "" {
		text += " of " + strings.TrimPrefix(u.Provider+"/"+u.Model, "/")
	}
	return text
}

// searchPage is the number of jobs in one request.
const searchPage = 1000

func newHeld() *cobra.Command {
	r := &remote{}
	var queue string
	cmd := &cobra.Command{
		Use: "held", Short: "List held jobs with the reason for each hold", Args: cobra.NoArgs,
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, _ []string) ([]api.Job, error) {
			limit := searchPage
			req := api.SearchRequest{SearchFilter: api.SearchFilter{State: []string{"held"}, Queue: queue}, Order: "asc", Limit: &limit}
			all := []api.Job{}
			for {
				page, err := c.Search(cmd.Context(), req, client.Read{})
				if err != nil {
					return nil, err
				}
				all = append(all, page.Jobs...)
				if req.Cursor = page.Cursor; !page.HasMore {
					return all, nil
				}
			}
		}, func(w io.Writer, all []api.Job) {
			showList(w, all, []column[api.Job]{
				{"JOB", func(j api.Job) string { return j.ID }},
				{"QUEUE", func(j api.Job) string { return j.Queue }},
				{"HELD BY", func(j api.Job) string { return maybe(j.Hold, holdText) }},
				{"ITERATION", func(j api.Job) string {
					return maybe(j.Agent, func(a api.JobAgent) string { return count(a.Iteration) })
				}},
				{"COST USD", func(j api.Job) string { return usd(j.CostUSD) }},
				{"CREATED", func(j api.Job) string { return clock(j.CreatedAt) }},
				{"REASON", func(j api.Job) string { return maybe(j.HoldReason, texts) }},
			})
		}),
	}
	r.bind(cmd)
	cmd.Flags().StringVar(&queue, "queue", "", "queue of the jobs (default all)")
	return cmd
}

func newMove() *cobra.Command {
	r, reset, keep := &remote{}, false, true
	cmd := &cobra.Command{
		Use: "move ID QUEUE", Short: "Move a job to another queue", Args: cobra.ExactArgs(2),
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (api.Status, error) {
			req := api.MoveJobRequest{Queue: args[1], ResetAttempts: reset}
			if !keep {
				req.KeepPriority = &keep
			}
			return done("moved"), c.MoveWith(cmd.Context(), args[0], req)
		}, showStatus),
	}
	r.bind(cmd)
	cmd.Flags().BoolVar(&reset, "reset-attempts", false, "reset the job's attempts; its history stays")
	cmd.Flags().BoolVar(&keep, "keep-priority", true, "keep the job's priority; if false, use the default priority of QUEUE")
	return cmd
}

func newReplay() *cobra.Command {
	from := 0
	cmd := onJob("replay", "Create a job that replays an agent from an iteration", func(cmd *cobra.Command, c *client.Client, id string) (api.EnqueueResponse, error) {
		if from < 1 {
			return api.EnqueueResponse{}, misusef("--from is %d; it must be the number of the first iteration to replay, 1 or more: corvo iterations %s lists them", from, id)
		}
		made, err := c.Replay(cmd.Context(), id, from)
		return api.EnqueueResponse{JobID: made, Status: "pending"}, err
	}, func(w io.Writer, made api.EnqueueResponse) { fmt.Fprintln(w, made.JobID) })
	cmd.Flags().IntVar(&from, "from", 0, "number of the first iteration to replay; 1 is the first")
	return cmd
}

func newIterations() *cobra.Command {
	return onJob("iterations", "List the finished iterations of an agent job, oldest first", func(cmd *cobra.Command, c *client.Client, id string) (api.Iterations, error) {
		all := api.Iterations{Iterations: []api.Iteration{}}
		for after := 0; ; {
			page, err := c.Iterations(cmd.Context(), id, client.IterationPage{After: after}, client.Read{})
			if err != nil {
				return all, err
			}
			all.Iterations = append(all.Iterations, page.Iterations...)
			if !page.HasMore || len(page.Iterations) == 0 {
				return all, nil
			}
			after = page.Iterations[len(page.Iterations)-1].Iteration
		}
	}, func(w io.Writer, all api.Iterations) {
		showList(w, all.Iterations, []column[api.Iteration]{
			{"ITERATION", func(i api.Iteration) string { return count(i.Iteration) }},
			{"STATUS", func(i api.Iteration) string { return i.Status }},
			{"COST USD", func(i api.Iteration) string { return usd(i.CostUSD) }},
			{"ATTEMPT", func(i api.Iteration) string { return count(i.Attempt) }},
			{"WORKER", func(i api.Iteration) string { return maybe(i.WorkerID, texts) }},
			{"ENDED", func(i api.Iteration) string { return clock(i.CreatedAt) }},
			{"HOLD REASON", func(i api.Iteration) string { return maybe(i.HoldReason, texts) }},
			{"CHECKPOINT", func(i api.Iteration) string { return jsonText(i.Checkpoint) }},
			{"RESULT", func(i api.Iteration) string { return jsonText(i.Result) }},
		})
	})
}

func newScores() *cobra.Command {
	var add []string
	var scorer string
	cmd := onJob("scores", "List the scores of a job, or add scores", func(cmd *cobra.Command, c *client.Client, id string) (api.Scores, error) {
		given, err := readScores(add)
		if err != nil {
			return api.Scores{}, err
		}
		for _, s := range given {
			if err := c.Score(cmd.Context(), id, s.Dimension, s.Value, scorer); err != nil {
				return api.Scores{}, err
			}
		}
		all, err := c.Scores(cmd.Context(), id, client.Read{Strong: len(given) > 0})
		return api.Scores{Scores: all}, err
	}, func(w io.Writer, all api.Scores) {
		showList(w, all.Scores, []column[api.Score]{
			{"DIMENSION", func(s api.Score) string { return s.Dimension }},
			{"VALUE", func(s api.Score) string { return decimal(s.Value) }},
			{"SCORER", func(s api.Score) string { return s.Scorer }},
			{"CREATED", func(s api.Score) string { return clock(s.CreatedAt) }},
		})
	})
	cmd.Flags().StringArrayVar(&add, "add", nil, "score to add first, DIMENSION=VALUE; may be repeated")
	cmd.Flags().StringVar(&scorer, "scorer", "", "name of the scorer")
	return cmd
}

// readScores parses all --add flags before the command sends any score.
func readScores(add []string) ([]api.Score, error) {
	var all []api.Score
	for _, text := range add {
		dimension, value, _ := strings.Cut(text, "=")
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || dimension == "" {
			return nil, misusef("--add is %q; write DIMENSION=VALUE, such as quality=0.8", text)
		}
		all = append(all, api.Score{Dimension: dimension, Value: x})
	}
	return all, nil
}
