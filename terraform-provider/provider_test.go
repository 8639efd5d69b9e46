package provider_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/corvo/corvo/api/client"
	provider "github.com/corvo/corvo/terraform-provider"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

func newSecret(t *testing.T) client.Secret {
	t.Helper()
	s, err := client.NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemas asks for the schemas as terraform does, because the framework checks them before it answers. A
// secret that is not marked as sensitive would be in every log.
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
	checkDescriptions(t, schemas)
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// checkDescriptions compares the descriptions of all schemas with a golden file, so that a
// change of a text that users read is a diff.
func checkDescriptions(t *testing.T, schemas map[string]*tfprotov6.Schema) {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		fmt.Fprintf(&b, "%s: %s\n", name, schemas[name].Block.Description)
		describe(&b, "  ", schemas[name].Block.Attributes)
	}
	const path = "testdata/descriptions.golden"
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the descriptions differ from %s; run this test with -rewrite and read the diff", path)
	}
}

// describe lists attributes with their descriptions, nested ones below their parent.
func describe(b *strings.Builder, indent string, attributes []*tfprotov6.SchemaAttribute) {
	for _, a := range attributes {
		fmt.Fprintf(b, "%s%s: %s\n", indent, a.Name, a.Description)
		if a.NestedType != nil {
			describe(b, indent+"  ", a.NestedType.Attributes)
		}
	}
}
