package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCloudBillingPreview checks that people see the names of namespaces, and no numbers that a line does not have.
func TestCloudBillingPreview(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cloud/v1/orgs/acme/namespaces":
			fmt.Fprint(w, `{"items":[{"id":"ns_1","name":"orders"}]}`)
		case "/cloud/v1/orgs/acme/invoices/preview":
			if r.URL.RawQuery == "format=csv" {
				fmt.Fprint(w, "BilledCost\n0.5\n")
				return
			}
			fmt.Fprint(w, `{"period":"2026-02","currency":"USD","lines":[
				{"meter":"output_tokens","namespace":"ns_1","tier":1,"price_version":"payg-1","quantity":25000001,"per":1000000,"unit_price":"0.02","amount":"0.50000002"},
				{"meter":"output_tokens","namespace":"ns_2","tier":0,"price_version":"payg-1","quantity":1,"per":1000000,"unit_price":"0","amount":"0"}],
				"rounding":"-0.00000002","subtotal":"0.5","credits":"0","carried_forward":"0","total":"0.5","llm_cost":{"total":"7.25","by_model":[]}}`)
		default:
			t.Error(r.URL)
		}
	}))
	t.Cleanup(server.Close)
	env := []string{"CORVO_ENDPOINT=" + server.URL, "CORVO_CLOUD_TOKEN=t"}
	const table = `preview of 2026-02 in USD

ITEM           LATE  NAMESPACE  PRICES  TIER  QUANTITY  UNIT PRICE        AMOUNT
output_tokens  -     orders     payg-1  1     25000001  0.02 per 1000000  0.50000002
output_tokens  -     ns_2       payg-1  0     1         0 per 1000000     0
rounding       -     -          -       -     -         -                 -0.00000002
total          -     -          -       -     -         -                 0.5

model calls, not in the total: 7.25
`
	for output, want := range map[string]string{"table": table, "json": `"namespace":"ns_1"`, "csv": "BilledCost\n0.5\n"} {
		a := corvo(t, env, "cloud", "billing", "preview", "--org", "acme", "--output", output)
		if a.code != 0 || !strings.Contains(a.stdout, want) {
			t.Errorf("%s: %d, %s%s", output, a.code, a.stdout, a.stderr)
		}
	}
	for command, want := range map[string]string{"preview": "table or json or csv", "plan": "it must be table or json\n"} {
		if a := corvo(t, env, "cloud", "billing", command, "--org", "acme", "--output", "xml"); a.code != 2 || !strings.Contains(a.stderr, want) {
			t.Errorf("%s: %d, %s", command, a.code, a.stderr)
		}
	}
}

// TestCloudBillingInvoiceShow checks that an invoice shows late usage, and how its total comes from the subtotal.
func TestCloudBillingInvoiceShow(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cloud/v1/orgs/acme/namespaces":
			fmt.Fprint(w, `{"items":[{"id":"ns_1","name":"orders"}]}`)
		case "/cloud/v1/orgs/acme/invoices/INV-000012":
			fmt.Fprint(w, `{"number":"INV-000012","status":"paid","period":"2026-02","currency":"USD","complete":false,"finalised_at":"2026-03-03T00:00:10Z","lines":[
				{"meter":"response_bytes","late":"2026-01","namespace":"ns_1","tier":0,"price_version":"payg-1","quantity":-5,"per":1000000000,"unit_price":"0","amount":"0"},
				{"meter":"brought_forward","namespace":"","tier":0,"price_version":"","quantity":1,"per":1,"unit_price":"0.3","amount":"0.3"}],
				"rounding":"0","subtotal":"0.3","credits":"0.1","carried_forward":"0.2","total":"0","llm_cost":{"total":"0","by_model":[]}}`)
		default:
			t.Error(r.URL)
		}
	}))
	t.Cleanup(server.Close)
	const want = `invoice INV-000012 of 2026-02 in USD, paid at 2026-03-03T00:00:10Z, without all sources of usage

ITEM             LATE     NAMESPACE  PRICES  TIER  QUANTITY  UNIT PRICE        AMOUNT
response_bytes   2026-01  orders     payg-1  0     -5        0 per 1000000000  0
brought_forward  -        -          -       0     1         0.3 per 1         0.3
rounding         -        -          -       -     -         -                 0
subtotal         -        -          -       -     -         -                 0.3
credits used     -        -          -       -     -         -                 0.1
carried forward  -        -          -       -     -         -                 0.2
total            -        -          -       -     -         -                 0
`
	a := corvo(t, []string{"CORVO_ENDPOINT=" + server.URL, "CORVO_CLOUD_TOKEN=t"}, "cloud", "billing", "invoices", "show", "INV-000012", "--org", "acme", "--output", "table")
	if a.code != 0 || !strings.Contains(a.stdout, want) {
		t.Errorf("%d, %s%s", a.code, a.stdout, a.stderr)
	}
}
