package serve

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// warned returns a node with a route that decodes orders and warns of unknown fields.
func warned(t *testing.T, strict bool) node {
	return newNode(t, Route{Method: "POST", Path: "/", Permission: Open, Strict: strict, Request: order{}, MaxBody: 100_000,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			var o order
			if err := DecodeJSON(r, &o); err != nil {
				return err
			}
			return WriteJSON(w, 200, struct{}{})
		}})
}

func TestWarning(t *testing.T) {
	t.Parallel()
	n := warned(t, false)
	unknown := 0
	for _, c := range []struct {
		body    string
		unknown int
		want    string
	}{
		{``, 0, ""},
		{`{"name":"x","NAME2":1}`, 1, `unknown field "NAME2"; did you mean "name"?`},
		{`{"cuont":3}`, 1, `unknown field "cuont"; did you mean "count"?`},
		{`{"frobnicate":3}`, 1, `unknown field "frobnicate"`},
		{`{"Count":3,"payload":{"cuont":1},"any":{"cuont":1},"raw":{"cuont":{}},"tags":{"cuont":"x"},"labels":{"cuont":"x"},"bytes":""}`, 0, ""},
		{`{"steps":[{"deley":1},{"deley":2}],"by_id":{"x":{"queeu":"q"}}}`, 2, `unknown field "deley"; did you mean "delay"?, unknown field "queeu"; did you mean "queue"?`},
		{`{"name":"x","n\u0061me":"y"}`, 0, `repeated field "name"`},
		{`{"steps":[` + items(maxFound-1, `{"deley":1}`) + `],"zz":1}`, 2, `unknown field "deley"; did you mean "delay"?, unknown field "zz"`},
		{`{"steps":[` + items(maxFound, `{"deley":1}`) + `],"zz":1}`, 1, `unknown field "deley"; did you mean "delay"?`},
		{`{"é\n":null}`, 1, `unknown field "\u00e9\n"`},
		{`{"zz":1,"bb":1,"cc":1,"dd":1}`, 3, `unknown field "zz", unknown field "bb", unknown field "cc"`},
		{`{"` + strings.Repeat(`\u0001`, 300) + `":1,"` + strings.Repeat("q", 300) + `":1,"zz":1}`, 3, `unknown field "` + strings.Repeat(`\x01`, maxWarnedName) + `...", unknown field "` + strings.Repeat("q", maxWarnedName) + `..."`}, // the longest header
	} {
		w := n.do("POST", "/", c.body)
		got := w.Header().Get(WarningHeader)
		if w.Code != 200 || got != c.want || len(got) > maxWarningBytes {
			t.Errorf("%s: %d, warns %q, want %q", c.body, w.Code, got, c.want)
		}
		unknown += c.unknown
	}
	if want := `corvo_unknown_fields_total{route="/"} ` + strconv.Itoa(unknown) + "\n"; !strings.Contains(n.metrics(), want) {
		t.Errorf("the metrics lack %s", want)
	}
	if w := warned(t, true).do("POST", "/", `{"cuont":3}`); w.Code != 400 || w.Header()[WarningHeader] != nil {
		t.Errorf("a strict route answers %d %v", w.Code, w.Header())
	}
}

// A busy route checks only some bodies, and fewer large ones.
func TestLooksAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	count := func(l *checkSampler, size int) (n int) {
		for range 10_000 {
			if l.take(now, size) {
				n++
			}
		}
		return n
	}
	var small, large checkSampler
	if got, want := count(&small, 100), int(checkBurst/checkPause)+1; got != want {
		t.Errorf("a route checks %d bodies at once, want %d", got, want)
	}
	if got := count(&large, 1<<20); got != 1 {
		t.Errorf("a route checks %d large bodies at once, want 1", got)
	}
	if now = now.Add(checkPause - 1); count(&small, 100) != 0 {
		t.Error("a route checks again before its pause is over")
	}
	if now = now.Add(1); count(&small, 100) != 1 {
		t.Error("a route does not look again after its pause")
	}
	if now = now.Add(time.Hour); count(&small, 100) != int(checkBurst/checkPause)+1 {
		t.Error("more than a burst is kept of a quiet hour")
	}
}
