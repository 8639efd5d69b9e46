package provider

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/corvo/corvo/api"
)

// TestReport checks the code and the attribute of messages, because nobody can look up a message without its
// code, and one at the wrong attribute sends people to the wrong line.
func TestReport(t *testing.T) {
	t.Parallel()
	names := attributes{"spec.replicas": "replicas", "queue_scope": "queue_scope"}
	fields := func(f ...any) map[string]any { return map[string]any{"fields": f} }
	for name, c := range map[string]struct {
		err  error
		want []string // attribute|summary|detail
	}{
		"code and message":  {api.Errorf(api.Conflict, "there is one"), []string{"|Cannot x: CONFLICT|there is one"}},
		"wrapped":           {fmt.Errorf("a: %w", api.Errorf(api.NotFound, "gone")), []string{"|Cannot x: NOT_FOUND|gone"}},
		"not the server's":  {errors.New("connection refused"), []string{"|Cannot x|connection refused"}},
		"the configuration": {&configError{"the provider has no y", "Set y."}, []string{"|Cannot x: the provider has no y|Set y."}},
		"fields": {&api.Error{Code: api.ValidationError, Message: "two faults", Details: fields(
			map[string]any{"field": "spec.replicas", "error": "is 2"},
			map[string]any{"field": "queue_scope[3]", "error": "is empty"},
			map[string]any{"field": "other", "error": "is odd"},
		)}, []string{"replicas|Cannot x: VALIDATION_ERROR|is 2", "queue_scope|Cannot x: VALIDATION_ERROR|is empty", "|Cannot x: VALIDATION_ERROR|other: is odd"}},
		"other details": {&api.Error{Code: api.ValidationError, Message: "no", Details: map[string]any{"fields": "none"}}, []string{"|Cannot x: VALIDATION_ERROR|no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got diag.Diagnostics
			report(&got, "x", c.err, names)
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %q", got, c.want)
			}
			for i, d := range got {
				at := ""
				if p, ok := d.(interface{ Path() path.Path }); ok {
					at = p.Path().String()
				}
				if text := at + "|" + d.Summary() + "|" + d.Detail(); text != c.want[i] {
					t.Errorf("got %q, want %q", text, c.want[i])
				}
			}
		})
	}
}

// TestSameText compares texts that differ only in their spelling, because such a difference must not replace
// a key.
func TestSameText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		same func(a, b string) bool
		a, b string
		want bool
	}{
		{sameDuration, "1h", "60m", true},
		{sameDuration, "1h", "61m", false},
		{sameDuration, "", "0s", true},
		{sameDuration, "1h", "soon", false},
		{sameTime, "2027-01-01T00:00:00Z", "2027-01-01T01:00:00+01:00", true},
		{sameTime, "2027-01-01T00:00:00Z", "2027-01-01T00:00:01Z", false},
		{sameTime, "", "", true},
		{sameTime, "", "2027-01-01T00:00:00Z", false},
		{sameTime, "soon", "soon", false},
		{sameRetention, "24h", "1440m", true},
		{sameRetention, "forever", "forever", true},
		{sameRetention, "forever", "24h", false},
		{sameRetention, "24h", "forever", false},
		{sameCron, "0 9 * * mon", " 0  9 * * MON ", true},
		{sameCron, "0 9 * * mon", "0 9 * * 1", false},
		{sameCron, "@daily", "@Daily", true},
		{sameJSON, `{"a":1,"b":[1,2]}`, "{ \"b\": [1, 2], \"a\": 1 }", true},
		{sameJSON, `[1,2]`, `[2,1]`, false},
		{sameJSON, `{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{sameJSON, `{}`, `{} {}`, false},
		{sameJSON, `{`, `{`, false},
	} {
		if got := c.same(c.a, c.b); got != c.want {
			t.Errorf("%q and %q the same: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
