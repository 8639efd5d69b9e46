package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudBilling makes the commands about plans, bills, spend limits and credits.
func cloudBilling(r *remote) *cobra.Command {
	return below("billing", "Manage the plan, invoices, spend limit and credits of an organisation",
		previewBill(r), cloudInvoices(r), showPlan(r), setPlan(r), cloudSpendLimit(r), cloudCredits(r), cloudCorrections(r),
		onCloud(r, "prices", "List the plans and the platform prices", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) (api.PlatformPrices, error) {
			return c.PlatformPrices(cmd.Context())
		}, func(w io.Writer, p api.PlatformPrices) { showPrices(w, p.Versions) }),
	)
}

func showPlan(r *remote) *cobra.Command {
	var org string
	return bindOrg(onCloud(r, "plan", "Show the plan of an organisation", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) (p api.PlanHistory, err error) {
		if org, err = orgOf(cmd.Context(), c, org); err != nil {
			return p, err
		}
		return c.Plan(cmd.Context(), org)
	}, showPlanHistory), &org)
}

func setPlan(r *remote) *cobra.Command {
	var org string
	var made edits[api.PlanOverrides]
	cmd := bindOrg(onCloud(r, "set-plan PLAN", "Change the plan of an organisation", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (p api.PlanHistory, err error) {
		if org, err = orgOf(cmd.Context(), c, org); err != nil {
			return p, err
		}
		overrides := &api.PlanOverrides{}
		made.apply(overrides)
		return c.SetPlan(cmd.Context(), org, api.SetPlanRequest{Plan: args[0], Overrides: overrides})
	}, showPlanHistory), &org)
	cmd.Long = "Change the plan of an organisation. A higher plan begins at the next whole hour, a lower plan with the next month in UTC.\n" +
		"The change replaces one that has not begun. Only operators may change to or from committed, and give the flags of\n" +
		"an agreement. A flag that is not given leaves that part of the plan."
	made.bind(cmd,
		option("monthly-fee", "monthly fee (operators only)", form[string]{dollars.kind, words.read}, func(o *api.PlanOverrides) **string { return &o.MonthlyFee }),
		option("minimum", "least charge of a month's usage (operators only)", form[string]{dollars.kind, words.read}, func(o *api.PlanOverrides) **string { return &o.Minimum }),
		option("discount-percent", "discount on usage, 0 to 100 (operators only)", form[int64]{whole.kind, readWhole}, func(o *api.PlanOverrides) **int64 { return &o.DiscountPercent }),
	)
	cmd.ValidArgsFunction = oneOf("free", "payg", "committed")
	return cmd
}

// showPlanHistory shows the plan in force and the changes of the plan.
func showPlanHistory(w io.Writer, p api.PlanHistory) {
	showOne(w, p,
		column[api.PlanHistory]{"PLAN", func(p api.PlanHistory) string { return p.Plan }},
		column[api.PlanHistory]{"PRICES", func(p api.PlanHistory) string { return p.Charges.PriceVersion }},
		column[api.PlanHistory]{"MONTHLY FEE", func(p api.PlanHistory) string { return p.Charges.MonthlyFee }},
		column[api.PlanHistory]{"MINIMUM", func(p api.PlanHistory) string { return p.Charges.Minimum }},
		column[api.PlanHistory]{"DISCOUNT", func(p api.PlanHistory) string { return fmt.Sprintf("%d %%", p.Charges.DiscountPercent) }},
	)
	if len(p.Changes) == 0 {
		return
	}
	fmt.Fprintln(w)
	showList(w, p.Changes, []column[api.PlanChange]{
		{"FROM", func(c api.PlanChange) string { return clock(c.From) }},
		{"PLAN", func(c api.PlanChange) string { return c.Plan }},
		{"OVERRIDES", func(c api.PlanChange) string { return yes(c.Overrides != nil) }},
		{"BY", func(c api.PlanChange) string { return c.By }},
		{"AT", func(c api.PlanChange) string { return clock(c.At) }},
	})
}

// pricedMeter is a price of a version.
type pricedMeter struct {
	api.PlanVersion
	api.PlatformPrice
}

// showPrices shows a line for each price of each version.
func showPrices(w io.Writer, versions []api.PlanVersion) {
	var all []pricedMeter
	for _, v := range versions {
		for _, p := range v.Prices {
			all = append(all, pricedMeter{v, p})
		}
	}
	showList(w, all, []column[pricedMeter]{
		{"PLAN", func(p pricedMeter) string { return p.Plan }},
		{"PRICES", func(p pricedMeter) string { return p.PriceVersion }},
		{"METER", func(p pricedMeter) string { return p.Meter }},
		{"INCLUDED", func(p pricedMeter) string { return count(p.Included) }},
		{"USD", func(p pricedMeter) string { return tierPrices(p.PlatformPrice) }},
	})
}

// tierPrices returns the prices of the tiers, such as "0.02 up to 1000000000, then 0.01 per 1000000".
func tierPrices(p api.PlatformPrice) string {
	var tiers []string
	for _, t := range p.Tiers {
		text := t.UnitPrice
		if t.UpTo > 0 {
			text += " up to " + count(t.UpTo)
		}
		tiers = append(tiers, text)
	}
	return strings.Join(tiers, ", then ") + " per " + count(p.Per)
}
