package allinone

import (
	"testing"

	"github.com/corvo/corvo/terraform-provider/tftest"
)

// TestTerraform runs a real terraform with the real provider against a real cloud.
func TestTerraform(t *testing.T) {
	t.Parallel()
	c, tool := start(t, nil), tftest.Install(t)
	tool.Scenario(t, c.Endpoint, c.Access.CloudToken)
	tool.Platform(t, c.Endpoint, c.Access.CloudToken, "demo")
	tool.Access(t, c.Endpoint, c.Access.CloudToken, "demo")
}
