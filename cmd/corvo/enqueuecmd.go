package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

func newEnqueue() *cobra.Command {
	r := &remote{}
	var made edits[api.EnqueueRequest]
	cmd := &cobra.Command{
		Use: "enqueue QUEUE [PAYLOAD]", Short: "Make a job; prints its id", Args: cobra.RangeArgs(1, 2),
		Long: "Make a job; prints its id, or that of the job which has its unique key. The payload is JSON, @FILE for a file of it,\n" +
			"@- for stdin; without one it is {}.",
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (a api.EnqueueResponse, err error) {
			req := api.EnqueueRequest{Queue: args[0]}
			if len(args) > 1 {
				if req.Payload, err = document.read(args[1]); err != nil {
					return a, misusef("the payload: %w", err)
				}
			}
			made.apply(&req)
			if cmd.Flags().Changed("delay") && cmd.Flags().Changed("scheduled-at") {
				return a, misusef("--delay and --scheduled-at both say when the job may run: give one of them")
			}
			if a, err = c.Enqueue(cmd.Context(), req); err == nil && a.UniqueExisting {
				fmt.Fprintf(cmd.ErrOrStderr(), "corvo: no job was made: %s (%s)\n", a.JobID, a.Status)
			}
			return a, err
		}, func(w io.Writer, a api.EnqueueResponse) { fmt.Fprintln(w, a.JobID) }),
	}
	r.bind(cmd)
	made.bind(cmd, enqueueFlags()...)
	return cmd
}

func enqueueFlags() []edit[api.EnqueueRequest] {
	type request = api.EnqueueRequest
	agent := func(r *request) *api.Agent {
		if r.Agent == nil {
			r.Agent = &api.Agent{}
		}
		return r.Agent
	}
	return []edit[request]{
		set("priority", "critical, high or normal (default normal)", priorityWord, func(r *request) *api.Priority { return &r.Priority }),
		set("scheduled-at", "when it may run first, a time or a date (UTC)", instant, func(r *request) *api.Time { return &r.ScheduledAt }),
		set("delay", "how long until it may run first, by this machine's clock, such as 10m", fromNow, func(r *request) *api.Time { return &r.ScheduledAt }),
		set("expire-after", "when its time is over, such as 1h", span, func(r *request) *api.Duration { return &r.ExpireAfter }),
		option("max-retries", "the most attempts, the first included (default 3)", whole, func(r *request) **int { return &r.MaxRetries }),
		{"retry-backoff", words.kind, "none, fixed, linear or exponential (default exponential)", func(text string) (func(*request), error) {
			return func(r *request) { r.RetryBackoff = text }, nil // none is a word of its own here
		}},
		set("retry-base-delay", "delay before the first retry (default 5s)", span, func(r *request) *api.Duration { return &r.RetryBaseDelay }),
		set("retry-max-delay", "most that a delay grows to (default 10m)", span, func(r *request) *api.Duration { return &r.RetryMaxDelay }),
		set("unique-key", "a key that one job of the queue has at a time", words, func(r *request) *string { return &r.UniqueKey }),
		set("unique-period", "how many seconds it has it at most (default 3600)", whole, func(r *request) *int { return &r.UniquePeriod }),
		set("debounce-key", "a key of which a later job takes the place of one that waits", words, func(r *request) *string { return &r.DebounceKey }),
		set("debounce", "how long such a job waits", span, func(r *request) *api.Duration { return &r.Debounce }),
		set("depends-on", "ids of jobs it waits for", names, func(r *request) *[]string { return &r.DependsOn }),
		set("dependency-policy", "what happens when one of them ends without success: fail, hold or ignore (default fail)", words, func(r *request) *string { return &r.DependencyPolicy }),
		set("parent-id", "the job that makes it", words, func(r *request) *string { return &r.ParentID }),
		set("fairness-key", "who it is for", words, func(r *request) *string { return &r.FairnessKey }),
		set("fairness-weight", "the share of that key from now on, 1 to 1000", whole, func(r *request) *int { return &r.FairnessWeight }),
		into("tag", "a tag, NAME=VALUE; may be given several times", func(r *request) *api.Strings { return &r.Tags }),
		into("header", "a header, NAME=VALUE; may be given several times", func(r *request) *api.Strings { return &r.Headers }),
		set("checkpoint", "what its first attempt is given", document, func(r *request) *json.RawMessage { return &r.Checkpoint }),
		set("result-schema", "a JSON Schema its result has to match", document, func(r *request) *json.RawMessage { return &r.ResultSchema }),
		option("chain", "the jobs that follow it", jsonOf[api.Chain](), func(r *request) **api.Chain { return &r.Chain }),
		set("max-iterations", "as an agent: how many iterations it may have", whole, func(r *request) *int { return &agent(r).MaxIterations }),
		set("max-cost-usd", "as an agent: what it may cost in all", dollars, func(r *request) *money.Nano { return &agent(r).MaxCostUSD }),
		set("iteration-timeout", "as an agent: how long an iteration may take", span, func(r *request) *api.Duration { return &agent(r).IterationTimeout }),
		set("provider", "of models, whose limits it counts against", words, func(r *request) *string { return &r.Provider }),
		set("model", "what it will use", words, func(r *request) *string { return &r.Model }),
		option("cost-estimate-usd", "what an attempt is expected to cost, which budgets reserve", estimate, func(r *request) **money.Reported { return &r.CostEstimateUSD }),
	}
}
