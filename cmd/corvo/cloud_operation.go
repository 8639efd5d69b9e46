package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudOperations makes the commands about the control plane's operations.
func cloudOperations(r *remote) *cobra.Command {
	columns := []column[api.Operation]{
		{"ID", func(o api.Operation) string { return o.ID }},
		{"KIND", func(o api.Operation) string { return o.Kind }},
		{"OF", func(o api.Operation) string { return o.Resource.Name }},
		{"STATUS", func(o api.Operation) string { return o.Status }},
		{"CREATED", func(o api.Operation) string { return clock(o.CreatedAt) }},
		{"FINISHED", func(o api.Operation) string { return maybe(o.FinishedAt, clock) }},
		{"WAITS OR FAILED", func(o api.Operation) string {
			return cmp.Or(o.Message, maybe(o.Error, func(e api.OperationError) string { return e.Error }))
		}},
	}
	one := func(w io.Writer, o api.Operation) { showOne(w, o, columns...) }
	return below("operations", "Show operations of the control plane and wait for them",
		listOfOrg(r, "list", "List the operations of an organisation, newest first", (*client.Cloud).Operations, columns),
		alias("get", onCloud(r, "show ID", "Show an operation", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Operation, error) {
			return c.Operation(cmd.Context(), args[0])
		}, one)),
		newOperationWait(r, one),
	)
}

func newOperationWait(r *remote, show func(io.Writer, api.Operation)) *cobra.Command {
	var most time.Duration
	cmd := onCloud(r, "wait ID", "Wait until an operation has ended", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Operation, error) {
		if err := checkTimeout(most); err != nil {
			return api.Operation{}, err
		}
		op, err := c.AwaitOperation(cmd.Context(), args[0], 0)
		if err != nil {
			return op, err
		}
		return waitOperation(cmd, c, op, most)
	}, show)
	cmd.Long = "Wait until an operation has ended. The exit code is 0 when it is done, 1 when it has failed, and 3 when --timeout\n" +
		"is over first. The operation goes on in any case."
	cmd.Flags().DurationVar(&most, "timeout", 0, "longest wait; 0 for no limit")
	return cmd
}

// operationLook is the longest wait of one request for an operation, so that the progress shows new reasons.
const operationLook = time.Second

// waitOperation waits until an operation of the control plane ends, and shows on a terminal how long it takes and why
// it waits. most bounds the wait; 0 = no bound.
func waitOperation(cmd *cobra.Command, c *client.Cloud, op api.Operation, most time.Duration) (api.Operation, error) {
	p := newProgress(cmd)
	defer p.clear()
	for begun := time.Now(); op.Status == api.OperationRunning; {
		step, waited := operationLook, time.Since(begun)
		if most > 0 && waited >= most {
			return op, timedOut{fmt.Errorf("%s of %s still runs after %v: %s", op.Kind, op.Resource.Name, most, cmp.Or(op.Message, "wait for operation "+op.ID+" again"))}
		}
		if most > 0 {
			step = min(step, most-waited)
		}
		p.show(0, 0, fmt.Sprintf("%s of %s: %v  %s", op.Kind, op.Resource.Name, waited.Truncate(time.Second), op.Message))
		var err error
		if op, err = c.AwaitOperation(cmd.Context(), op.ID, step); err != nil {
			return op, err
		}
	}
	return op, nil
}
