package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudCorrections makes the commands about corrections of usage.
func cloudCorrections(r *remote) *cobra.Command {
	columns := []column[api.Correction]{
		{"CORRECTION", func(c api.Correction) string { return c.ID }},
		{"STATUS", func(c api.Correction) string { return c.Status }},
		{"NAMESPACE", func(c api.Correction) string { return c.Namespace }},
		{"METER", func(c api.Correction) string { return c.Meter }},
		{"HOUR", func(c api.Correction) string { return clock(c.Hour) }},
		{"QUEUE", func(c api.Correction) string { return c.Queue }},
		{"MODEL", func(c api.Correction) string { return c.Model }},
		{"PROVIDER", func(c api.Correction) string { return c.Provider }},
		{"QUANTITY", func(c api.Correction) string { return count(c.Quantity) }},
		{"PROPOSED BY", func(c api.Correction) string { return c.ProposedBy }},
		{"APPROVED BY", func(c api.Correction) string { return c.ApprovedBy }},
		{"REASON", func(c api.Correction) string { return c.Reason }},
		{"REJECTION", func(c api.Correction) string { return c.Rejection }},
	}
	one := func(w io.Writer, c api.Correction) { showOne(w, c, columns...) }
	return below("corrections", "Manage corrections of an organisation's usage",
		listOfOrg(r, "list", "List the corrections of an organisation's usage, oldest first", (*client.Cloud).Corrections, columns),
		proposeCorrection(r, one), approveCorrection(r, one), rejectCorrection(r, one),
	)
}

func proposeCorrection(r *remote, show func(io.Writer, api.Correction)) *cobra.Command {
	var made edits[api.ProposeCorrectionRequest]
	cmd := ofCorrection(r, "propose NAMESPACE --meter METER --hour TIME --quantity N --reason TEXT", "Propose a correction of usage (operators only)", func(ctx context.Context, c *client.Cloud, org, namespace string) (api.Correction, error) {
		req := api.ProposeCorrectionRequest{Namespace: namespace}
		made.apply(&req)
		return c.ProposeCorrection(ctx, org, req)
	}, show)
	cmd.Long = "Propose to change the quantity of one meter in one hour of a namespace. The usage changes when another operator\n" +
		"approves it with corvo cloud billing corrections approve. Name a deleted namespace by its id. Queue, model and\n" +
		"provider are those of the usage: the quantity that they have in the hour never falls below zero."
	made.bind(cmd,
		set("meter", "name of the meter, such as output_tokens", words, func(r *api.ProposeCorrectionRequest) *string { return &r.Meter }),
		set("hour", "start of the hour, such as 2026-02-11T10:00:00Z", instant, func(r *api.ProposeCorrectionRequest) *api.Time { return &r.Hour }),
		set("quantity", "quantity to add, negative to take away", tokens, func(r *api.ProposeCorrectionRequest) *int64 { return &r.Quantity }),
		set("queue", "queue of the usage", words, func(r *api.ProposeCorrectionRequest) *string { return &r.Queue }),
		set("model", "model of the usage", words, func(r *api.ProposeCorrectionRequest) *string { return &r.Model }),
		set("provider", "provider of the model", words, func(r *api.ProposeCorrectionRequest) *string { return &r.Provider }),
		set("reason", "reason, which the organisation sees", words, func(r *api.ProposeCorrectionRequest) *string { return &r.Reason }),
	)
	return cmd
}

func approveCorrection(r *remote, show func(io.Writer, api.Correction)) *cobra.Command {
	cmd := ofCorrection(r, "approve CORRECTION", "Apply a pending correction of usage (operators only)", func(ctx context.Context, c *client.Cloud, org, id string) (api.Correction, error) {
		return c.ApproveCorrection(ctx, org, id)
	}, show)
	cmd.Long = "Apply a pending correction of another operator. Your key must be older than the correction."
	return cmd
}

func rejectCorrection(r *remote, show func(io.Writer, api.Correction)) *cobra.Command {
	var made edits[api.RejectCorrectionRequest]
	cmd := ofCorrection(r, "reject CORRECTION --reason TEXT", "Reject a pending correction of usage (operators only)", func(ctx context.Context, c *client.Cloud, org, id string) (api.Correction, error) {
		var req api.RejectCorrectionRequest
		made.apply(&req)
		return c.RejectCorrection(ctx, org, id, req)
	}, show)
	cmd.Long = "Reject a pending correction, or withdraw your own."
	made.bind(cmd, set("reason", "reason, which the organisation sees", words, func(r *api.RejectCorrectionRequest) *string { return &r.Reason }))
	return cmd
}

// ofCorrection makes a command with one argument, which sends a request about a correction of an organisation's usage.
func ofCorrection(r *remote, use, short string, ask func(ctx context.Context, c *client.Cloud, org, arg string) (api.Correction, error), show func(io.Writer, api.Correction)) *cobra.Command {
	var org string
	return bindOrg(onCloud(r, use, short, cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Correction, error) {
		org, err := orgOf(cmd.Context(), c, org)
		if err != nil {
			return api.Correction{}, err
		}
		return ask(cmd.Context(), c, org, args[0])
	}, show), &org)
}
