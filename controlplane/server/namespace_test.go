package server

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// TestOperatorsNameNamespacesByID checks that an operator who gives a name learns why it is not found, because names are
// unique only within an organisation.
func TestOperatorsNameNamespacesByID(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	id := f.namespace("acme", "orders")
	if a := f.send("GET", cloud+"/namespaces/orders", admin, ""); a.status != 200 {
		t.Errorf("an organisation, by name: %d %s", a.status, a.body)
	}
	if a := f.send("GET", cloud+"/namespaces/"+id, f.operator, ""); a.status != 200 {
		t.Errorf("an operator, by id: %d %s", a.status, a.body)
	}
	if a := f.send("GET", cloud+"/namespaces/orders", f.operator, ""); a.problem(t).Code != api.NotFound || !strings.Contains(string(a.body), "by its id, which begins with ns_") {
		t.Errorf("an operator, by name: %d %s", a.status, a.body)
	}
}
