package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
