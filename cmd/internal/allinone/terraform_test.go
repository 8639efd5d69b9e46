package allinone

import (
	"testing"

	"github.com/corvo/corvo/terraform-provider/tftest"
)

// TestTerraform runs a real terraform with the real provider against a real cloud.
func TestTerraform(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	tftest.Scenario(t, c.Endpoint, c.Access.CloudToken)
}
