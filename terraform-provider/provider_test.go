package provider_test

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/corvo/corvo/api/client"
	provider "github.com/corvo/corvo/terraform-provider"
)

func newSecret(t *testing.T) client.Secret {
	t.Helper()
	s, err := client.NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemas asks for the schemas as terraform does; the framework checks them
// before it answers. A secret that is not marked would be in every log.
func TestSchemas(t *testing.T) {
	t.Parallel()
	server := providerserver.NewProtocol6(provider.New("test"))()
	got, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range got.Diagnostics {
		t.Errorf("%s: %s: %s", d.Severity, d.Summary, d.Detail)
	}
	schemas := map[string]*tfprotov6.Schema{"provider": got.Provider, "ephemeral corvo_api_key": got.EphemeralResourceSchemas["corvo_api_key"]}
	for name, s := range got.ResourceSchemas {
		schemas[name] = s
	}
	var found, sensitive, writeOnly []string
	for name, s := range schemas {
		if s == nil {
			t.Fatalf("%s has no schema", name)
		}
		found = append(found, name)
		for _, a := range s.Block.Attributes {
			full := name + "." + a.Name
			if a.Description == "" && a.NestedType == nil {
				t.Errorf("%s is not described", full)
			}
			if a.Sensitive {
				sensitive = append(sensitive, full)
			}
			if a.WriteOnly {
				writeOnly = append(writeOnly, full)
			}
		}
	}
	same(t, "schemas", found, "corvo_alert_rule", "corvo_api_key", "corvo_approval_policy", "corvo_budget", "corvo_limit_rule", "corvo_model_provider",
		"corvo_namespace", "corvo_price", "corvo_queue", "corvo_role", "corvo_schedule", "corvo_webhook", "ephemeral corvo_api_key", "provider")
	same(t, "sensitive", sensitive, "corvo_api_key.secret_wo", "corvo_webhook.secret_wo", "ephemeral corvo_api_key.secret", "provider.api_key", "provider.cloud_token")
	same(t, "write-only", writeOnly, "corvo_api_key.secret_wo", "corvo_webhook.secret_wo")
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
