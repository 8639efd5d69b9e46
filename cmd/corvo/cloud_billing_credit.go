package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudCredits makes the commands about credits of an organisation.
func cloudCredits(r *remote) *cobra.Command {
	columns := []column[api.Credit]{
		{"CREDIT", func(c api.Credit) string { return c.ID }},
		{"STATUS", func(c api.Credit) string { return c.Status }},
		{"AMOUNT USD", func(c api.Credit) string { return usd(c.AmountUSD) }},
		{"REST USD", func(c api.Credit) string { return usd(c.RestUSD) }},
		{"EXPIRES", func(c api.Credit) string { return maybe(c.ExpiresAt, clock) }},
		{"CREATED", func(c api.Credit) string { return clock(c.CreatedAt) }},
		{"GRANTED BY", func(c api.Credit) string { return c.GrantedBy }},
		{"APPROVED BY", func(c api.Credit) string { return c.ApprovedBy }},
		{"REASON", func(c api.Credit) string { return c.Reason }},
	}
	one := func(w io.Writer, c api.Credit) { showOne(w, c, columns...) }
	return below("credits", "Manage the credits of an organisation",
		listOfOrg(r, "list", "List the credits of an organisation, oldest first", (*client.Cloud).Credits, columns),
		grantCredit(r, one), approveCredit(r, one), revokeCredit(r, one),
	)
}

func grantCredit(r *remote, show func(io.Writer, api.Credit)) *cobra.Command {
	var org string
	var made edits[api.GrantCreditRequest]
	cmd := bindOrg(onCloud(r, "grant --amount-usd AMOUNT --reason TEXT", "Grant a credit to an organisation (operators only)", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) (api.Credit, error) {
		var req api.GrantCreditRequest
		made.apply(&req)
		org, err := orgOf(cmd.Context(), c, org)
		if err != nil {
			return api.Credit{}, err
		}
		return c.GrantCredit(cmd.Context(), org, req)
	}, show), &org)
	cmd.Long = "Grant a credit to an organisation. If operators alone would grant more than 1,000 USD to the organisation in the\n" +
		"calendar month, the credit is pending until another operator approves it with corvo cloud billing credits approve."
	made.bind(cmd,
		set("amount-usd", "amount, above 0 and at most 1000000", dollars, func(r *api.GrantCreditRequest) *api.USD { return &r.AmountUSD }),
		set("reason", "reason, which the organisation sees", words, func(r *api.GrantCreditRequest) *string { return &r.Reason }),
		set("expires-at", "time or date of expiry (default never)", instant, func(r *api.GrantCreditRequest) *api.Time { return &r.ExpiresAt }),
	)
	return cmd
}

func approveCredit(r *remote, show func(io.Writer, api.Credit)) *cobra.Command {
	var org string
	cmd := bindOrg(onCloud(r, "approve CREDIT", "Approve a pending credit (operators only)", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Credit, error) {
		org, err := orgOf(cmd.Context(), c, org)
		if err != nil {
			return api.Credit{}, err
		}
		return c.ApproveCredit(cmd.Context(), org, args[0])
	}, show), &org)
	cmd.Long = "Approve a pending credit of another operator. Your key must be older than the credit."
	return cmd
}

func revokeCredit(r *remote, show func(io.Writer, api.Credit)) *cobra.Command {
	var org string
	var made edits[api.RevokeCreditRequest]
	cmd := bindOrg(onCloud(r, "revoke CREDIT --reason TEXT", "Take back the unused rest of a credit (operators only)", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (api.Credit, error) {
		var req api.RevokeCreditRequest
		made.apply(&req)
		org, err := orgOf(cmd.Context(), c, org)
		if err != nil {
			return api.Credit{}, err
		}
		return c.RevokeCredit(cmd.Context(), org, args[0], req)
	}, show), &org)
	cmd.Long = "Take back the unused rest of a credit. A pending credit is withdrawn."
	made.bind(cmd, set("reason", "reason, which the ledger has", words, func(r *api.RevokeCreditRequest) *string { return &r.Reason }))
	return cmd
}
