package tftest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/terraform-provider/examples"
)

// Access applies the example of roles, with a key that has one of them, to a cloud
// namespace. It changes a role, makes terraform forget and import it, and destroys all.
func (tool *Tool) Access(t *testing.T, endpoint, cloudToken, namespace string) {
	t.Helper()
	cloud, err := client.NewCloud(endpoint, cloudToken)
	if err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
	grants := func(want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), client.DefaultTimeout)
		defer cancel()
		if r, err := cloud.NamespaceRole(ctx, namespace, "auditor"); err != nil || fmt.Sprint(r.Permissions) != want {
			t.Errorf("the auditor may %v, want %s: %v", r.Permissions, want, err)
		}
	}
	d := tool.Dir(t, "CORVO_ENDPOINT="+endpoint, "CORVO_CLOUD_TOKEN="+cloudToken, "CORVO_NAMESPACE="+namespace)
	d.Write("main.tf", examples.Access)
	d.Write("key.tf", `
ephemeral "corvo_api_key" "audit" {}

resource "corvo_api_key" "audit" {
  name              = "audit"
  roles             = [corvo_role.auditor.name]
  secret_wo         = ephemeral.corvo_api_key.audit.secret
  secret_wo_version = 1
}
`)
	settled := func(after string) {
		t.Helper()
		if out, empty := d.Plan(); !empty {
			t.Fatalf("after %s the plan is not empty:\n%s", after, out)
		}
	}
	d.Apply()
	settled("create")
	grants("[job.read queue.read node.read]")
	d.Setenv("TF_VAR_auditors_see", `["queue.read", "job.read"]`)
	d.Apply()
	settled("update")
	grants("[job.read queue.read]")
	d.Forget("corvo_role.auditor")
	if out := d.ApplyFails(); !strings.Contains(out, "CONFLICT") {
		t.Errorf("a role that is there is taken over:\n%s", out)
	}
	d.Import("corvo_role.auditor", namespace+"/auditor")
	settled("import")
	d.Destroy()
}
