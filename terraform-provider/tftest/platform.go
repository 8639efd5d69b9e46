package tftest

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/terraform-provider/examples"
)

// Platform applies the example of limits, budgets and alerts to a cloud namespace, makes
// terraform forget and import the resources with ids of several parts, and destroys all.
// The provider's own tests check the rest of each resource's life.
func (tool *Tool) Platform(t *testing.T, endpoint, cloudToken, namespace string) {
	t.Helper()
	d := tool.Dir(t, "CORVO_ENDPOINT="+endpoint, "CORVO_CLOUD_TOKEN="+cloudToken, "CORVO_NAMESPACE="+namespace, "TF_VAR_webhook_secret=a-secret-of-the-scenario")
	d.Write("main.tf", examples.Platform)
	settled := func(after string) {
		t.Helper()
		if out, empty := d.Plan(); !empty {
			t.Fatalf("after %s the plan is not empty:\n%s", after, out)
		}
	}
	d.Apply()
	settled("create")
	if got := d.Attribute("corvo_budget", "all", "namespace"); got != namespace {
		t.Errorf("the budget's namespace is %v, want the provider's", got)
	}
	d.Forget("corvo_budget.all", "corvo_limit_rule.each_tenant")
	d.Import("corvo_budget.all", namespace+"/namespace/default")
	d.Import("corvo_limit_rule.each_tenant", namespace+"/agents/*")
	settled("import")
	d.Forget("corvo_budget.all")
	if out := d.ImportFails("corvo_budget.all", "namespace/default"); !strings.Contains(out, "Write NAMESPACE/SCOPE/TARGET") {
		t.Errorf("terraform does not say how to import:\n%s", out)
	}
	d.Import("corvo_budget.all", namespace+"/namespace/default")
	d.Destroy()
}
