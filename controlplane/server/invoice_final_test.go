package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/reconcile"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// goTo sets the clock forward to a time.
func (f *front) goTo(text string) {
	f.t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		f.t.Fatal(err)
	}
	f.ahead.Add(int64(at.Sub(f.now())))
}

// closeMonths makes the invoices that are due.
func (f *front) closeMonths() {
	f.t.Helper()
	term, leads := f.store.LeadingTerm()
	if !leads {
		f.t.Fatal("the process does not lead")
	}
	reconcile.NewCloser(reconcile.CloserConfig{Store: f.store, Plans: f.server.plans, Now: f.now, Logger: slog.New(slog.NewTextHandler(f.log, nil))}).Pass(f.t.Context(), term)
}

func read[T any](f *front, path, key string) (v T) {
	f.t.Helper()
	a := f.send("GET", cloud+path, key, "")
	if err := json.Unmarshal(a.body, &v); err != nil || a.status != 200 {
		f.t.Fatalf("%s: %d %s", path, a.status, a.body)
	}
	return v
}

// The last preview of a month and its final invoice are the same to the nano-dollar if nothing else arrives: in the
// organisation's first month with an upgrade and credits, and in the next one with late usage and an amount brought forward.
func TestThePreviewIsTheInvoice(t *testing.T) {
	t.Parallel()
	f := startFront(t)
	f.goTo("2031-02-10T12:30:00Z") // before the organisation is created, because each of its months gets an invoice
	f.host("h1", keyring.Host)
	admin := f.credential(keyring.Org, f.org("acme"), tenancy.Admin)
	prod, test := f.namespace("acme", "prod"), f.namespace("acme", "test")
	if a := f.send("PUT", cloud+"/orgs/acme/plan", admin, `{"plan":"payg"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	f.propose(&store.GrantCredit{Meta: &store.Meta{Principal: "test"}, Id: "credit_1", Org: f.acme(), Currency: billing.USD, Amount: 12_345_678_901, Reason: "test"})
	model := used(billing.Cost, 1_250_000_001)
	model.Provider, model.Model = "anthropic", "claude"
	f.use(prod, "2031-02-10T12:00:00Z", 1, used(billing.OutputTokens, 500_000), used(billing.JobsEnqueued, 7))
	f.use(test, "2031-02-10T13:00:00Z", 1, used(billing.OutputTokens, 2_500_001), used(billing.ResponseBytes, 333_333_333_333), model)
	var final []api.Invoice
	for at, ends := range []string{"2031-02-28T23:59:00Z", "2031-03-31T23:59:00Z"} {
		f.goTo(ends)
		preview := read[api.InvoicePreview](f, "/orgs/acme/invoices/preview", admin)
		f.ahead.Add(int64(2 * time.Minute))
		f.closeMonths()
		i := read[api.Invoice](f, fmt.Sprintf("/orgs/acme/invoices/INV-%06d", at+1), admin)
		if !reflect.DeepEqual(i.InvoiceSums, preview.InvoiceSums) || !reflect.DeepEqual(i.Lines, preview.Lines) || !reflect.DeepEqual(i.LLMCost, preview.LLMCost) {
			t.Errorf("the invoice is\n%+v\nits preview was\n%+v", i, preview)
		}
		final = append(final, i)
		// Late usage of february, and usage of march.
		f.use(prod, "2031-02-10T14:00:00Z", 2+uint64(at)*2, used(billing.OutputTokens, 2_000_000))
		f.use(prod, "2031-03-05T14:00:00Z", 3+uint64(at)*2, used(billing.OutputTokens, 3_000_000))
	}
	if final[0].Subtotal == "0" || final[0].Credits == "0" || final[0].CarriedForward == "0" && final[0].Total == "0" || len(final[0].LLMCost.ByModel) != 1 || !final[0].Complete || len(final[0].RatedSHA256) != 64 {
		t.Errorf("the first invoice is %+v", final[0])
	}
	var late []api.InvoiceLine
	for _, l := range final[1].Lines {
		if l.Late != "" {
			late = append(late, l)
		}
	}
	if len(late) != 1 || late[0].Late != "2031-02" || late[0].Quantity.String() != "2000000" || late[0].Amount != "0.04" || !strings.Contains(late[0].RowsURL, "from=2031-02-01&to=2031-03-01") {
		t.Errorf("late usage is %+v", late)
	}
	page := read[api.Page[api.InvoiceSummary]](f, "/orgs/acme/invoices?limit=1", admin)
	if len(page.Items) != 1 || !reflect.DeepEqual(page.Items[0], final[1].InvoiceSummary) || page.Cursor == "" {
		t.Errorf("the first page is %+v", page)
	}
	if page = read[api.Page[api.InvoiceSummary]](f, "/orgs/acme/invoices?limit=1&cursor="+page.Cursor, admin); len(page.Items) != 1 || !reflect.DeepEqual(page.Items[0], final[0].InvoiceSummary) {
		t.Errorf("the second page is %+v", page)
	}
	all, err := f.cloud(admin).Invoices(t.Context(), "acme")
	if err != nil || len(all) != 2 || all[1].Number != "INV-000001" {
		t.Errorf("the client lists %+v, %v", all, err)
	}
	for path, want := range map[string]api.Code{"INV-000003": api.NotFound, "1": api.NotFound, "INV-1": api.NotFound} {
		if a := f.send("GET", cloud+"/orgs/acme/invoices/"+path, admin, ""); a.problem(t).Code != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
