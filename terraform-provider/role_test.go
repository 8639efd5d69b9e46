package provider_test

import (
	"slices"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/terraform-provider/examples"
	"github.com/corvo/corvo/terraform-provider/tftest"
)

// roleLife takes roles through their life on a real node: create, update in place, drift,
// deletion behind terraform's back, import, refusals, destroy.
func roleLife(t *testing.T, tool *tftest.Tool) {
	p := startPlatform(t, tool)
	ctx := t.Context()
	p.Write("main.tf", examples.Access)
	p.applies("2 to add, 0 to change, 0 to destroy")
	settled(t, p.Dir)
	grants := func(want ...string) {
		t.Helper()
		r, err := p.c.Role(ctx, "auditor", strong)
		p.must(err)
		if !slices.Equal(r.Permissions, want) {
			t.Errorf("the auditor may %v, want %v", r.Permissions, want)
		}
	}
	grants("job.read", "queue.read", "node.read")

	p.Setenv("TF_VAR_auditors_see", `["queue.read", "job.read"]`)
	p.applies("0 to add, 1 to change, 0 to destroy")
	grants("job.read", "queue.read")
	p.Setenv("TF_VAR_auditors_see", `["job.read", "queue.read", "job.read"]`) // the same in other words
	settled(t, p.Dir)

	_, err := p.c.PutRole(ctx, "auditor", api.RoleRequest{Permissions: []string{"node.admin"}}, 0)
	p.must(err)
	p.applies("0 to add, 1 to change, 0 to destroy")
	grants("job.read", "queue.read")

	p.must(p.c.DeleteRole(ctx, "auditor", 0))
	p.applies("1 to add, 0 to change, 0 to destroy")
	p.Forget("corvo_role.auditor")
	says(t, p.ApplyFails(), "Cannot create role: CONFLICT", "terraform import")
	p.Import("corvo_role.auditor", "auditor")
	settled(t, p.Dir)

	p.Write("refused.tf", `
resource "corvo_role" "none" {
  name        = "none"
  permissions = []
}
resource "corvo_role" "admin" {
  name        = "admin"
  permissions = ["job.read", "org.manage"]
}
resource "corvo_role" "spaced" {
  name        = "a b"
  permissions = ["job.read"]
}
`)
	says(t, p.ApplyFails(), "Attribute permissions set must contain at least 1 elements", `got: "org.manage"`, `none of:`, "Attribute name 1 to 64 letters")
	p.Write("refused.tf", "")

	p.Destroy()
	left, err := p.c.Roles(ctx, strong)
	p.must(err)
	if len(left) != 4 {
		t.Errorf("%v are left", left)
	}
}
