package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// cloudInvoices makes the commands about final invoices.
func cloudInvoices(r *remote) *cobra.Command {
	return below("invoices", "Show the invoices of an organisation",
		listOfOrg(r, "list", "List the invoices of an organisation, newest first", (*client.Cloud).Invoices, []column[api.InvoiceSummary]{
			{"INVOICE", func(i api.InvoiceSummary) string { return i.Number }},
			{"MONTH", func(i api.InvoiceSummary) string { return i.Period }},
			{"STATUS", func(i api.InvoiceSummary) string { return i.Status }},
			{"SUBTOTAL", func(i api.InvoiceSummary) string { return i.Subtotal }},
			{"CREDITS", func(i api.InvoiceSummary) string { return i.Credits }},
			{"CARRIED FORWARD", func(i api.InvoiceSummary) string { return i.CarriedForward }},
			{"TOTAL", func(i api.InvoiceSummary) string { return i.Total }},
			{"FINALISED", func(i api.InvoiceSummary) string { return clock(i.FinalisedAt) }},
		}),
		showInvoice(r),
	)
}

// outputCSV is an output format of invoices.
const outputCSV = "csv"

// previewBill makes the command that shows the invoice of the running month. A table has the names of namespaces.
func previewBill(r *remote) *cobra.Command {
	var org string
	var names map[string]string
	cmd := bindOrg(onCloud(r, "preview", "Show the invoice of the running month", cobra.NoArgs, func(cmd *cobra.Command, c *client.Cloud, _ []string) (p api.InvoicePreview, err error) {
		if org, names, err = orgWithNames(cmd.Context(), r, c, org); err != nil {
			return p, err
		}
		return c.InvoicePreview(cmd.Context(), org)
	}, func(w io.Writer, p api.InvoicePreview) {
		fmt.Fprintf(w, "preview of %s in %s", p.Period, p.Currency)
		if p.AsOf != nil {
			fmt.Fprintf(w, ", as of %s", clock(*p.AsOf))
		}
		showLines(w, p.InvoiceSums, p.Lines, p.LLMCost, names)
	}), &org)
	cmd.Long = "Show the invoice of the running month. With --output csv it has the columns of FOCUS, which programs for cloud costs read."
	show := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.formats = []string{outputCSV}
		if r.output != outputCSV {
			return show(cmd, args)
		}
		c, err := r.cloud()
		if err != nil {
			return err
		}
		defer c.Close()
		if org, err = orgOf(cmd.Context(), c, org); err != nil {
			return err
		}
		text, err := c.InvoicePreviewCSV(cmd.Context(), org)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}

func showInvoice(r *remote) *cobra.Command {
	var org string
	var names map[string]string
	return bindOrg(onCloud(r, "show INVOICE", "Show an invoice", cobra.ExactArgs(1), func(cmd *cobra.Command, c *client.Cloud, args []string) (i api.Invoice, err error) {
		if org, names, err = orgWithNames(cmd.Context(), r, c, org); err != nil {
			return i, err
		}
		return c.Invoice(cmd.Context(), org, args[0])
	}, func(w io.Writer, i api.Invoice) {
		fmt.Fprintf(w, "invoice %s of %s in %s, %s at %s", i.Number, i.Period, i.Currency, i.Status, clock(i.FinalisedAt))
		if !i.Complete {
			fmt.Fprint(w, ", without all sources of usage")
		}
		showLines(w, i.InvoiceSums, i.Lines, i.LLMCost, names)
	}), &org)
}

// orgWithNames returns the organisation of a command and, for a table, the names of its namespaces by id.
func orgWithNames(ctx context.Context, r *remote, c *client.Cloud, given string) (org string, names map[string]string, err error) {
	if org, err = orgOf(ctx, c, given); err != nil || r.output != outputTable {
		return org, nil, err
	}
	all, err := c.Namespaces(ctx, org)
	names = make(map[string]string, len(all))
	for _, n := range all {
		names[n.ID] = n.Name
	}
	return org, names, err
}

// showLines shows the lines of an invoice and its end.
func showLines(w io.Writer, sums api.InvoiceSums, lines []api.InvoiceLine, cost api.LLMCost, names map[string]string) {
	fmt.Fprint(w, "\n\n")
	rows := append(lines[:len(lines):len(lines)], api.InvoiceLine{Meter: "rounding", Amount: sums.Rounding})
	if sums.Credits != "0" || sums.CarriedForward != "0" {
		rows = append(rows, api.InvoiceLine{Meter: "subtotal", Amount: sums.Subtotal}, api.InvoiceLine{Meter: "credits used", Amount: sums.Credits},
			api.InvoiceLine{Meter: "carried forward", Amount: sums.CarriedForward})
	}
	showList(w, append(rows, api.InvoiceLine{Meter: "total", Amount: sums.Total}), []column[api.InvoiceLine]{
		{"ITEM", func(l api.InvoiceLine) string { return l.Meter }},
		{"LATE", func(l api.InvoiceLine) string { return l.Late }},
		{"NAMESPACE", func(l api.InvoiceLine) string { return cmp.Or(names[l.Namespace], l.Namespace) }},
		{"PRICES", func(l api.InvoiceLine) string { return l.PriceVersion }},
		{"TIER", func(l api.InvoiceLine) string { return ofLine(l, count(l.Tier)) }},
		{"QUANTITY", func(l api.InvoiceLine) string { return ofLine(l, count(l.Quantity)) }},
		{"UNIT PRICE", func(l api.InvoiceLine) string { return ofLine(l, l.UnitPrice+" per "+count(l.Per)) }},
		{"AMOUNT", func(l api.InvoiceLine) string { return l.Amount }},
	})
	fmt.Fprintf(w, "\nmodel calls, not in the total: %s\n", cost.Total)
}

// ofLine returns text for a line with a quantity, and "" for the rounding and the total.
func ofLine(l api.InvoiceLine, text string) string {
	if l.Per == 0 {
		return ""
	}
	return text
}
