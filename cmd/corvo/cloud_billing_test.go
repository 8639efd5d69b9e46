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
			fmt.Fprint(w, `{"period":"2026-02","currency":"USD","lines":[
				{"meter":"output_tokens","namespace":"ns_1","tier":1,"price_version":"payg-1","quantity":25000001,"per":1000000,"unit_price":"0.02","amount":"0.50000002"},
				{"meter":"output_tokens","namespace":"ns_2","tier":0,"price_version":"payg-1","quantity":1,"per":1000000,"unit_price":"0","amount":"0"}],
				"rounding":"-0.00000002","subtotal":"0.5","credits":"0","total":"0.5","llm_cost":{"total":"7.25","by_model":[]}}`)
		default:
			t.Error(r.URL)
		}
	}))
	t.Cleanup(server.Close)
	env := []string{"CORVO_ENDPOINT=" + server.URL, "CORVO_CLOUD_TOKEN=t"}
	const table = `bill of 2026-02 in USD

ITEM           NAMESPACE  PRICES  TIER  QUANTITY  UNIT PRICE        AMOUNT
output_tokens  orders     payg-1  1     25000001  0.02 per 1000000  0.50000002
output_tokens  ns_2       payg-1  0     1         0 per 1000000     0
rounding       -          -       -     -         -                 -0.00000002
total          -          -       -     -         -                 0.5

model calls, not in the total: 7.25
`
	for output, want := range map[string]string{"table": table, "json": `"namespace":"ns_1"`} {
		a := corvo(t, env, "cloud", "billing", "preview", "--org", "acme", "--output", output)
		if a.code != 0 || !strings.Contains(a.stdout, want) {
			t.Errorf("%s: %d, %s%s", output, a.code, a.stdout, a.stderr)
		}
	}
}
