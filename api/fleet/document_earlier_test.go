package fleet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/tenancy"
)

// A document of an earlier version names one host. It decodes to a list of one member, and is never written again in
// that form.
func TestADocumentOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	at := func(role string) []GroupMember {
		return []GroupMember{{Store: "store_1", Host: "host_1", URL: "http://h1", Role: role}}
	}
	const placed = `"host":"host_1","address":"http://h1","store":"store_1"`
	for text, want := range map[string][]GroupMember{
		`"host":"","address":"","ready":false`:               nil,
		placed + `,"ready":false`:                            at(Found),
		placed + `,"ready":true`:                             at(Join),
		placed + `,"role":"join"`:                            at(Join),
		placed + `,"role":"found"`:                           at(Found),
		`"host":"host_1","address":"http://h1","ready":true`: {{Host: "host_1", URL: "http://h1", Role: Join}},
		placed + `,"role":"found","members":[{"store":"store_2","host":"host_2","url":"http://h2","role":"join"}]`: {{Store: "store_2", Host: "host_2", URL: "http://h2", Role: Join}},
	} {
		var d Doc
		if err := json.Unmarshal([]byte(`{"number":7,"namespace":"ns_a",`+text+`}`), &d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, d.Members); diff != "" || d.Number != 7 || d.Namespace != "ns_a" {
			t.Errorf("%s: %+v, the members (-want +got):\n%s", text, d, diff)
		}
		written, err := json.Marshal(d)
		if err != nil || strings.Contains(string(written), `"address"`) {
			t.Errorf("%s: is written as %s, %v", text, written, err)
		}
	}
}

// The credentials in testdata/catalogue_earlier, which an earlier build wrote: of the namespaces ns_a and ns_b, and of their
// organisation o. A third namespace is absent there.
const (
	earlierA   = "cv_ns_ZSBbpfnNwLL4YLjz_g2dzCf93pV1BuwF1ZqNXmRXZ4zNjFW8GT8LMhLeYvxN33DSNT"
	earlierB   = "cv_ns_SqF3gzu1IwsmIf8M_PDRZnRQaDnWp9N6PlHI7pOFuDFn9nmI8HHBllvPY4DJ0qJ11G"
	earlierOrg = "cv_org_GZRqcs8mRaSnK26K_fGpSNKqiHHgtTmzGDfnr1dZXVrETqlrF2GXftyipM3m1wzrg8"
)

// A catalogue with documents of the single kind of an earlier build opens, its keys and tokens work, and documents of the
// present kinds replace them one by one.
func TestACatalogueOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "catalogue_earlier"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "catalogue")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, docs := openCatalogue(t, path)
	if got := namespaces(docs); !slices.Equal(got, []string{"ns_a", "ns_b", "ns_gone"}) || c.Number() != 6 {
		t.Fatalf("documents of %v up to %d", got, c.Number())
	}
	works := func(step, credential, namespace string, want bool) {
		t.Helper()
		dir := NewDirectory()
		for _, d := range docs {
			dir.Put(d)
		}
		if _, d, err := dir.Authenticate(credential, namespace, noon); (err == nil && d.Namespace == namespace) != want {
			t.Errorf("%s: %v in %s, want it to work: %v", step, err, namespace, want)
		}
		who, _, err := dir.Authenticate(earlierA, "", noon)
		if err == nil && !slices.Equal(who.Custom, []tenancy.Permission{tenancy.JobRead}) {
			t.Errorf("%s: the custom role gives %v", step, who.Custom)
		}
	}
	for credential, of := range map[string][]bool{earlierA: {true, false}, earlierB: {false, true}, earlierOrg: {true, true}} {
		works("opened", credential, "ns_a", of[0])
		works("opened", credential, "ns_b", of[1])
	}
	k := signingKey(t, 7)
	keep := func(all ...Doc) {
		for _, d := range all {
			put(t, c, docMessage(t, k, d))
		}
		c, docs = openCatalogue(t, path)
	}
	// The organisation's token is revoked. It stays in the documents of the namespaces until these are replaced.
	keep(Doc{Number: 7, Kind: KindTokens, Org: "o"})
	works("token revoked", earlierOrg, "ns_a", false)
	works("token revoked", earlierOrg, "ns_b", false)
	works("token revoked", earlierB, "ns_b", true)
	placement := docOf(10, "ns_b", "b")
	placement.Kind = KindPlacement
	keep(Doc{Number: 9, Kind: KindKeys, Org: "o", Namespace: "ns_b"}, placement)
	works("key revoked", earlierB, "ns_b", false)
	works("key revoked", earlierA, "ns_a", true)
	if m := c.Messages("ns_b"); len(m) != 3 || m[0].Number != 7 || m[1].Number != 9 || m[2].Number != 10 {
		t.Errorf("the documents of ns_b are %+v", m)
	}
}

// A document of a later format is refused with both numbers.
func TestADocumentOfALaterFormat(t *testing.T) {
	t.Parallel()
	c, _ := openCatalogue(t, filepath.Join(t.TempDir(), "catalogue"))
	k := signingKey(t, 1)
	put(t, c, keysMessage(k))
	err := c.Put(docMessage(t, k, Doc{Number: 1, Format: DocFormat + 1, Kind: KindTokens, Org: "o"}))
	if err == nil || !strings.Contains(err.Error(), "format 2") || !strings.Contains(err.Error(), "at most 1") {
		t.Errorf("a document of format %d: %v", DocFormat+1, err)
	}
}
