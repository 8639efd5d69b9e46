package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// nested returns JSON of that many nested lists.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// Raw JSON may be nested as deep as text.MaxNesting, wherever it is in a body. A deeper value is refused
// with the name of its field, also where encoding/json would report invalid JSON.
func TestNesting(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		n := decodeOn(t, strict, func(order) {})
		for _, c := range []struct{ field, body string }{
			{"payload", `{"name":"x","payload":%s}`},
			{"raw.a", `{"count":"","raw":{"b":1,"a": %s }}`},
			{"parts.p.note", `{"parts":{"p":{"note":%s}},"count":1}`},
		} {
			if w := n.do("POST", "/", fmt.Sprintf(c.body, nested(text.MaxNesting))); w.Code != http.StatusOK {
				t.Errorf("%s of the most levels: %d %s", c.field, w.Code, w.Body)
			}
			for _, depth := range []int{text.MaxNesting + 1, maxNesting - 3, maxNesting - 2, maxNesting + 1, 40_000} {
				p := wantProblem(t, n.do("POST", "/", fmt.Sprintf(c.body, nested(depth))), api.ValidationError)
				want := fmt.Sprintf("%s: nested %d levels deep, at most %d are taken", c.field, depth, text.MaxNesting)
				if p.Error != want {
					t.Errorf("%s of %d levels: %s, want %s", c.field, depth, p.Error, want)
				}
			}
		}
	}
	// The raw JSON of an unknown field may be nested as deep as encoding/json decodes.
	n := decodeOn(t, false, func(order) {})
	if w := n.do("POST", "/", `{"unknown":`+nested(maxNesting-1)+`}`); w.Code != http.StatusOK {
		t.Errorf("an unknown field: %d %s", w.Code, w.Body)
	}
	p := wantProblem(t, n.do("POST", "/", `{"unknown":`+nested(maxNesting)+`}`), api.ValidationError)
	if want := fmt.Sprintf("body: nested %d levels deep, at most %d are taken", maxNesting+1, maxNesting); p.Error != want {
		t.Errorf("a deeper one: %s, want %s", p.Error, want)
	}
}

// A body that is too deep to scan may be invalid in other ways as well.
func TestNestingOfNoJSON(t *testing.T) {
	t.Parallel()
	n := decodeOn(t, true, func(order) {})
	open := strings.Repeat("[", 2*maxNesting+1)
	for _, body := range []string{
		open, open + `"`, `{"name":` + open, `{"payload":` + open, `{"payload":` + open + `,"count":`, `{"tags":{"\ud83d":` + open,
		`{"steps":` + open + `{"queue":`, `{"by_id":{"a":` + open, `{"cost_usd":` + open, `{"payload"` + open, `{"` + open + `":` + open,
	} {
		wantProblem(t, n.do("POST", "/", body), api.ValidationError)
	}
}
