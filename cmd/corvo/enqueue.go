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
		Use: "enqueue QUEUE [PAYLOAD]", Short: "Create a job and print its id", Args: cobra.RangeArgs(1, 2),
		Long: "Create a job and print its id. If another job holds the unique key, its id is printed and no job is created. The\n" +
			"payload is JSON, @FILE to read a file or @- to read stdin; the default is {}.",
		RunE: run(r, func(cmd *cobra.Command, c *client.Client, args []string) (a api.EnqueueResponse, err error) {
			req := api.EnqueueRequest{Queue: args[0]}
			if len(args) > 1 {
				if req.Payload, err = document.read(args[1]); err != nil {
					return a, misusef("the payload: %w", err)
				}
			}
			made.apply(&req)
			if cmd.Flags().Changed("delay") && cmd.Flags().Changed("scheduled-at") {
				return a, misusef("--delay and --scheduled-at are both given: give one of them")
			}
			if a, err = c.Enqueue(cmd.Context(), req); err == nil && a.UniqueExisting {
				fmt.Fprintf(cmd.ErrOrStderr(), "corvo: no job was created, because one exists: %s (%s)\n", a.JobID, a.Status)
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
		set("priority", "priority: critical, high or normal (default normal)", priorityWord, func(r *request) *api.Priority { return &r.Priority }),
		set("scheduled-at", "earliest start, a time or a date (UTC)", instant, func(r *request) *api.Time { return &r.ScheduledAt }),
		set("delay", "delay before the earliest start, by this machine's clock, such as 10m", fromNow, func(r *request) *api.Time { return &r.ScheduledAt }),
		set("expire-after", "lifetime of the job, after which it is dead, such as 1h", span, func(r *request) *api.Duration { return &r.ExpireAfter }),
		option("max-retries", "limit on attempts, including the first (default 3)", whole, func(r *request) **int { return &r.MaxRetries }),
		{"retry-backoff", words.kind, "growth of the retry delay: none, fixed, linear or exponential (default exponential)", func(text string) (func(*request), error) {
			return func(r *request) { r.RetryBackoff = text }, nil // here none is a backoff, not the value that clears the field
		}},
		set("retry-base-delay", "delay before the first retry (default 5s)", span, func(r *request) *api.Duration { return &r.RetryBaseDelay }),
		set("retry-max-delay", "longest delay before a retry (default 10m)", span, func(r *request) *api.Duration { return &r.RetryMaxDelay }),
		set("unique-key", "key that only one job of the queue holds at a time", words, func(r *request) *string { return &r.UniqueKey }),
		set("unique-period", "longest time a job holds its unique key, in seconds (default 3600)", whole, func(r *request) *int { return &r.UniquePeriod }),
		set("debounce-key", "key by which a later enqueue updates the waiting job and restarts its delay", words, func(r *request) *string { return &r.DebounceKey }),
		set("debounce", "delay of a job with --debounce-key", span, func(r *request) *api.Duration { return &r.Debounce }),
		set("depends-on", "ids of the jobs to wait for", names, func(r *request) *[]string { return &r.DependsOn }),
		set("dependency-policy", "action when a job of --depends-on does not succeed: fail, hold or ignore (default fail)", words, func(r *request) *string { return &r.DependencyPolicy }),
		set("parent-id", "id of the parent job", words, func(r *request) *string { return &r.ParentID }),
		set("fairness-key", "key whose share of the queue the job counts against, such as a tenant", words, func(r *request) *string { return &r.FairnessKey }),
		set("fairness-weight", "new weight of the fairness key, 1 to 1000", whole, func(r *request) *int { return &r.FairnessWeight }),
		into("tag", "tag, NAME=VALUE; may be repeated", func(r *request) *api.Strings { return &r.Tags }),
		into("header", "header, NAME=VALUE; may be repeated", func(r *request) *api.Strings { return &r.Headers }),
		set("checkpoint", "checkpoint for the first attempt", document, func(r *request) *json.RawMessage { return &r.Checkpoint }),
		set("result-schema", "JSON Schema for the result", document, func(r *request) *json.RawMessage { return &r.ResultSchema }),
		option("chain", "chain of jobs that follow", jsonOf[api.Chain](), func(r *request) **api.Chain { return &r.Chain }),
		set("max-iterations", "limit on iterations of an agent job", whole, func(r *request) *int { return &agent(r).MaxIterations }),
		set("max-cost-usd", "limit on the total cost of an agent job", dollars, func(r *request) *money.Nano { return &agent(r).MaxCostUSD }),
		set("iteration-timeout", "time limit of an iteration of an agent job", span, func(r *request) *api.Duration { return &agent(r).IterationTimeout }),
		set("provider", "model provider whose limits apply", words, func(r *request) *string { return &r.Provider }),
		set("model", "model that the job uses", words, func(r *request) *string { return &r.Model }),
		option("cost-estimate-usd", "expected cost of an attempt, which budgets reserve", estimate, func(r *request) **money.Reported { return &r.CostEstimateUSD }),
	}
}
