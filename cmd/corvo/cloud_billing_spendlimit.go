package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudSpendLimit makes the commands about the spend limit of an organisation.
func cloudSpendLimit(r *remote) *cobra.Command {
	return below("spend-limit", "Manage the spend limit of an organisation", showLimit(r), setLimit(r), clearLimit(r), raiseLimit(r))
}

func showLimit(r *remote) *cobra.Command {
	var org string
	return bindOrg(onCloud(r, "show", "Show the spend limit and the spend of the running month", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) (l api.SpendLimit, err error) {
		if org, err = orgOf(cmd.Context(), c, org); err != nil {
			return l, err
		}
		return c.SpendLimit(cmd.Context(), org)
	}, showSpendLimit), &org)
}

func setLimit(r *remote) *cobra.Command {
	var org string
	cmd := bindOrg(onCloud(r, "set USD", "Set the spend limit for each calendar month", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (l api.SpendLimit, err error) {
		amount, err := api.ParseUSD(args[0])
		if err != nil {
			return l, misusef("%q is no amount of dollars: write it like 12.5, with at most nine decimals", args[0])
		}
		if org, err = orgOf(cmd.Context(), c, org); err != nil {
			return l, err
		}
		return c.SetSpendLimit(cmd.Context(), org, api.SetSpendLimitRequest{LimitUSD: amount})
	}, showSpendLimit), &org)
	cmd.Long = "Set the spend limit for each calendar month in UTC. While the bill of the month, before credits and tax, has reached\n" +
		"the limit, no job starts. Acks and enqueues are accepted."
	return cmd
}

func clearLimit(r *remote) *cobra.Command {
	var org string
	return bindOrg(onCloud(r, "clear", "Remove the spend limit", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) (l api.SpendLimit, err error) {
		if org, err = orgOf(cmd.Context(), c, org); err != nil {
			return l, err
		}
		return c.ClearSpendLimit(cmd.Context(), org)
	}, showSpendLimit), &org)
}

func raiseLimit(r *remote) *cobra.Command {
	var org string
	var made edits[api.RaiseSpendLimitRequest]
	cmd := bindOrg(onCloud(r, "raise --amount-usd AMOUNT --reason TEXT --expires-at TIME", "Raise the spend limit until a time", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) (l api.SpendLimit, err error) {
		var req api.RaiseSpendLimitRequest
		made.apply(&req)
		if org, err = orgOf(cmd.Context(), c, org); err != nil {
			return l, err
		}
		return c.RaiseSpendLimit(cmd.Context(), org, req)
	}, showSpendLimit), &org)
	cmd.Long = "Raise the spend limit until a time. You may raise the limit by as much again, over all raises that have not expired.\n" +
		"Operators of the cloud may raise it by more."
	made.bind(cmd,
		set("amount-usd", "amount that is added to the limit, above 0", dollars, func(r *api.RaiseSpendLimitRequest) *api.USD { return &r.AmountUSD }),
		set("reason", "reason, which the record has", words, func(r *api.RaiseSpendLimitRequest) *string { return &r.Reason }),
		set("expires-at", "time or date of the end, at most 31 days ahead", instant, func(r *api.RaiseSpendLimitRequest) *api.Time { return &r.ExpiresAt }),
	)
	return cmd
}

// showSpendLimit shows a limit, and its alerts and raises if there are any.
func showSpendLimit(w io.Writer, l api.SpendLimit) {
	showOne(w, l,
		column[api.SpendLimit]{"LIMIT USD", func(l api.SpendLimit) string { return maybe(l.LimitUSD, usd) }},
		column[api.SpendLimit]{"WITH RAISES USD", func(l api.SpendLimit) string { return maybe(l.EffectiveUSD, usd) }},
		column[api.SpendLimit]{"SPEND USD", func(l api.SpendLimit) string { return usd(l.SpendUSD) }},
		column[api.SpendLimit]{"STARTS HELD", func(l api.SpendLimit) string { return yes(l.Held) }},
	)
	if len(l.Alerts) > 0 {
		fmt.Fprintln(w)
		showList(w, l.Alerts, []column[api.SpendAlert]{
			{"ALERT", func(a api.SpendAlert) string { return fmt.Sprintf("%d %%", a.Percent) }},
			{"AT", func(a api.SpendAlert) string { return clock(a.At) }},
			{"SPEND USD", func(a api.SpendAlert) string { return usd(a.SpendUSD) }},
			{"LIMIT USD", func(a api.SpendAlert) string { return usd(a.LimitUSD) }},
		})
	}
	if len(l.Raises) > 0 {
		fmt.Fprintln(w)
		showList(w, l.Raises, []column[api.SpendRaise]{
			{"RAISE USD", func(r api.SpendRaise) string { return usd(r.AmountUSD) }},
			{"EXPIRES", func(r api.SpendRaise) string { return clock(r.ExpiresAt) }},
			{"APPROVED BY", func(r api.SpendRaise) string { return r.ApprovedBy }},
			{"REASON", func(r api.SpendRaise) string { return r.Reason }},
		})
	}
}
