package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

// acted is the outcome for one of the jobs that a command names.
type acted struct {
	JobID  string   `json:"job_id"`
	Status string   `json:"status,omitempty"`
	Code   api.Code `json:"code,omitempty"` // of the refusal
	Error  string   `json:"error,omitempty"`
}

// act applies an action to one job and returns the job's new status.
type act func(ctx context.Context, c *client.Client, id string) (status string, err error)

// jobActions makes the commands that apply one action to jobs.
func jobActions() []*cobra.Command {
	var holdReason, rejectReason string
	hold := onJobs("hold", "Hold waiting jobs, so that no worker fetches them", func(ctx context.Context, c *client.Client, id string) (string, error) {
		return "held", c.Hold(ctx, id, holdReason)
	})
	hold.Flags().StringVar(&holdReason, "reason", "", "reason, shown with the job")
	reject := onJobs("reject", "Reject held jobs; they become dead", func(ctx context.Context, c *client.Client, id string) (string, error) {
		return "dead", c.Reject(ctx, id, rejectReason)
	})
	reject.Flags().StringVar(&rejectReason, "reason", "", "reason, shown with the job")
	return []*cobra.Command{
		onJobs("retry", "Run settled jobs again from their first attempt", func(ctx context.Context, c *client.Client, id string) (string, error) {
			return "pending", c.Retry(ctx, id)
		}),
		onJobs("cancel", "Cancel jobs and tell workers of active ones to stop", func(ctx context.Context, c *client.Client, id string) (string, error) {
			return c.Cancel(ctx, id)
		}),
		hold, newApprove(), reject,
		onJobs("delete", "Delete jobs; active ones are cancelled first", func(ctx context.Context, c *client.Client, id string) (string, error) {
			return c.Delete(ctx, id)
		}),
	}
}

// onJobs makes a command that applies the same action to each of its jobs.
func onJobs(verb, short string, do act) *cobra.Command {
	r := &remote{}
	cmd := &cobra.Command{Use: verb + " ID...", Short: short, Args: cobra.MinimumNArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		defer c.Close()
		all, err := actOn(cmd.Context(), c, ids, do)
		if len(all) == 0 || len(ids) == 1 && err != nil {
			return err
		}
		return errors.Join(tell(r, cmd, all, showActed), err)
	}
	r.bind(cmd)
	return cmd
}

// actOn applies an action to jobs, one after the other. It goes on after a refusal that concerns one job, and
// stops at an error that would meet all of them.
func actOn(ctx context.Context, c *client.Client, ids []string, do act) (all []acted, failed error) {
	for _, id := range ids {
		status, err := do(ctx, c, id)
		var refused *api.Error
		switch {
		case err == nil:
			all = append(all, acted{JobID: id, Status: status})
		case errors.As(err, &refused) && ofTheJob[refused.Code]:
			all = append(all, acted{JobID: id, Code: refused.Code, Error: refused.Message})
			failed = errors.Join(failed, err)
		default:
			return all, errors.Join(failed, err)
		}
	}
	return all, failed
}

// ofTheJob holds the error codes that concern one job and not the others.
var ofTheJob = map[api.Code]bool{api.NotFound: true, api.Conflict: true, api.StateConflict: true, api.BudgetExceeded: true, api.QueueFull: true}

func showActed(w io.Writer, all []acted) {
	showList(w, all, []column[acted]{
		{"JOB", func(a acted) string { return a.JobID }},
		{"STATUS", func(a acted) string {
			if a.Code != "" {
				return string(a.Code)
			}
			return a.Status
		}},
	})
}

// newApprove makes the approve command. It changes fields of one job only, so that nobody gives many jobs the
// same payload by mistake.
func newApprove() *cobra.Command {
	var made edits[api.ApproveRequest]
	cmd := onJobs("approve", "Approve held jobs; they become pending", func(ctx context.Context, c *client.Client, id string) (string, error) {
		if len(made) == 0 {
			return "pending", c.Approve(ctx, id)
		}
		var req api.ApproveRequest
		made.apply(&req)
		return "pending", c.ApproveWith(ctx, id, req)
	})
	cmd.Args = func(cmd *cobra.Command, ids []string) error {
		if len(made) > 0 && len(ids) > 1 {
			return misusef("an approval with changes is for one job; %d are named: approve each by itself", len(ids))
		}
		return cobra.MinimumNArgs(1)(cmd, ids)
	}
	made.bind(cmd,
		set("payload", "new payload of the job", document, func(r *api.ApproveRequest) *json.RawMessage { return &r.Payload }),
		set("checkpoint", "new checkpoint of the job", document, func(r *api.ApproveRequest) *json.RawMessage { return &r.Checkpoint }),
		option("max-iterations", "new limit on the job's iterations", whole, func(r *api.ApproveRequest) **int { return &agentOf(r).MaxIterations }),
		option("max-cost-usd", "new limit on the job's total cost", dollars, func(r *api.ApproveRequest) **money.Nano { return &agentOf(r).MaxCostUSD }),
		set("iteration-timeout", "new time limit of an iteration, such as 10m", span, func(r *api.ApproveRequest) *api.Duration { return &agentOf(r).IterationTimeout }),
	)
	return cmd
}

// agentOf returns the request's changes of the agent and creates them if necessary.
func agentOf(r *api.ApproveRequest) *api.AgentChanges {
	if r.Agent == nil {
		r.Agent = &api.AgentChanges{}
	}
	return r.Agent
}
