package serve

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing/money"
)

type step struct {
	Queue string `json:"queue"`
	Delay int32  `json:"delay,omitempty"`
}

type order struct {
	Name     string                     `json:"name"`
	Count    int                        `json:"count,omitempty"`
	Small    uint8                      `json:"small,omitempty"`
	Open     *bool                      `json:"open,omitempty"`
	Ratio    float64                    `json:"ratio,omitempty"`
	Cost     money.Nano                 `json:"cost_usd,omitempty"`
	At       time.Time                  `json:"at,omitzero"`
	Payload  json.RawMessage            `json:"payload,omitempty"`
	Any      any                        `json:"any,omitempty"`
	Tags     map[string]string          `json:"tags,omitempty"`
	Raw      map[string]json.RawMessage `json:"raw,omitempty"`
	ByID     map[string]*step           `json:"by_id,omitempty"`
	Parts    map[string]part            `json:"parts,omitempty"`
	Steps    []step                     `json:"steps,omitempty"`
	Queues   []string                   `json:"queues,omitempty"`
	Bytes    []byte                     `json:"bytes,omitempty"`
	Urgency  api.Priority               `json:"urgency,omitempty"`
	Labels   api.Strings                `json:"labels,omitempty"`
	Excluded string                     `json:"-"`
	part
}

type part struct {
	Note json.RawMessage `json:"note,omitempty"`
}

// decodeOn returns a node with a route that decodes orders.
func decodeOn(t testing.TB, strict bool, then func(order)) node {
	return newNode(t, Route{Method: "POST", Path: "/", Permission: Open, Strict: strict, MaxBody: 100_000,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			var o order
			if err := DecodeJSON(r, &o); err != nil {
				return err
			}
			then(o)
			return WriteJSON(w, 200, struct{}{})
		}})
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		want order
	}{
		{``, order{}},
		{`{}`, order{}},
		{` `, order{}},
		{`null`, order{}},
		{"\n{ \"name\" : \"x\" }\r\n", order{Name: "x"}},
		{`{"name":"x","count":-3,"small":255,"ratio":1e3,"queues":["a","b"]}`, order{Name: "x", Count: -3, Small: 255, Ratio: 1000, Queues: []string{"a", "b"}}},
		{`{"cost_usd":1.23e-7}`, order{Cost: 123}},
		{`{"payload":{"a": [1,null]}}`, order{Payload: json.RawMessage(`{"a": [1,null]}`)}},
		{`{"unknown":1,"name":"x"}`, order{Name: "x"}},
		{`{"NAME":"x"}`, order{Name: "x"}},
		{`{"name":"a","name":"b"}`, order{Name: "b"}},
		{`{"excluded":"x","Excluded":"x","-":"x"}`, order{}},
		{`{"name":null,"count":null,"small":null,"open":null,"ratio":null,"cost_usd":null,"at":null,"payload":null,"any":null,
		   "tags":null,"raw":null,"by_id":null,"parts":null,"steps":null,"queues":null,"bytes":null,"urgency":null,"labels":null,"note":null}`, order{}},
		{`{"raw":{"a":null,"b":[null]}}`, order{Raw: map[string]json.RawMessage{"b": json.RawMessage(`[null]`)}}},
		{`{"by_id":{"a":null,"b":{"queue":null}}}`, order{ByID: map[string]*step{"b": {}}}},
		{`{"parts":{"a":{"note":null},"b":{"note":1}}}`, order{Parts: map[string]part{"a": {}, "b": {Note: json.RawMessage("1")}}}},
		{`{"steps":[{"queue":"q","delay":null}]}`, order{Steps: []step{{Queue: "q"}}}},
		{`{"urgency":1,"labels":{"a":null,"b":"c"}}`, order{Urgency: api.High, Labels: api.Strings{"b": "c"}}},
		{`{"name":"null"}`, order{Name: "null"}},
		{`{"name":"","tags":"","by_id":"","queues":"","steps":"","labels":"","payload":"","any":"","open":"","ratio":"","cost_usd":"","at":"","bytes":"","urgency":"","count":7}`,
			order{Payload: json.RawMessage(`""`), Any: "", Bytes: []byte{}, Count: 7}},
		{`{"open":"","payload":{"a": "<", "b":""},"raw":{"a":""},"by_id":{"b":{"delay":""}}}`, order{
			Payload: json.RawMessage(`{"a": "<", "b":""}`), Raw: map[string]json.RawMessage{"a": json.RawMessage(`""`)}, ByID: map[string]*step{"b": {}}}},
		{`{"name":"\ud83d\ude00 \\ud83d"}`, order{Name: `😀 \ud83d`}},
		{`{"payload":"cut \ud83d","raw":{"a":"\ude00"}}`, order{Payload: json.RawMessage(`"cut \ud83d"`), Raw: map[string]json.RawMessage{"a": json.RawMessage(`"\ude00"`)}}},
		{`{"name":"\ufffd"}`, order{Name: "\uFFFD"}}, // a replacement character that was meant
	} {
		called := false
		n := decodeOn(t, false, func(got order) {
			called = true
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s gives\n%+v, want\n%+v", c.body, got, c.want)
			}
		})
		if w := n.do("POST", "/", c.body, "Content-Type", "text/plain"); !called {
			t.Errorf("%s: %d %s", c.body, w.Code, w.Body)
		}
	}
}

// A job of a heartbeat that is null counts as absent, so that its lease is not renewed.
func TestDecodeDropsNullJobsOfAHeartbeat(t *testing.T) {
	t.Parallel()
	var got api.HeartbeatRequest
	body := `{"jobs":{"a":null,"b":{},"c":{"lease_token":null},"d":{"worker_id":"w"}}}`
	if err := Decode(httptest.NewRequest("POST", "/", nil), []byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(got.Jobs)); !slices.Equal(names, []string{"b", "c", "d"}) || got.Jobs["d"].WorkerID != "w" {
		t.Errorf("%s gives the jobs %v, want b, c and d", body, names)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	lenient := decodeOn(t, false, func(o order) { t.Errorf("decoded %+v", o) })
	strict := decodeOn(t, true, func(o order) { t.Errorf("decoded %+v", o) })
	for _, c := range []struct {
		node    node
		body    string
		code    api.Code
		message string
	}{
		{lenient, `{`, api.ParseError, "the body is not JSON at byte 1: unexpected end of JSON input"},
		{lenient, `{"name":}`, api.ParseError, "at byte 9: invalid character '}'"},
		{lenient, `{"name":'x'}`, api.ParseError, "at byte 9"},
		{lenient, `{"name":"x"} {}`, api.ParseError, "at byte 14: invalid character '{' after top-level value"},
		{lenient, `{"name":"x"}]`, api.ParseError, "after top-level value"},
		{lenient, `{"payload":{"a":nul}}`, api.ParseError, "at byte 20"},
		{lenient, `{"count":01}`, api.ParseError, "at byte 11"},
		{lenient, `{"count":NaN}`, api.ParseError, "at byte 10"},
		{lenient, "{\"name\":\"\x01\"}", api.ParseError, "at byte 10"},
		{lenient, "{\"name\":\"ab\xff\"}", api.ParseError, "not valid UTF-8 at byte 11"},
		{lenient, "{\"payload\":\"\xc0\xaf\"}", api.ParseError, "not valid UTF-8 at byte 12"},
		{lenient, "{\"payload\":\"\xed\xa0\x80\"}", api.ParseError, "not valid UTF-8 at byte 12"},
		{lenient, "\xef\xbb\xbf{}", api.ParseError, "at byte 1"},

		{lenient, `[]`, api.ValidationError, "body: expected an object, got array"},
		{lenient, `"x"`, api.ValidationError, "body: expected an object, got string"},
		{lenient, `{"name":1}`, api.ValidationError, "name: expected a string, got number"},
		{lenient, `{"count":"1"}`, api.ValidationError, "count: expected a whole number of 64 bits, got string"},
		{lenient, `{"count":1.5}`, api.ValidationError, "count: expected a whole number of 64 bits, got number 1.5"},
		{lenient, `{"count":9223372036854775808}`, api.ValidationError, "count: expected a whole number of 64 bits, got number 9223372036854775808"},
		{lenient, `{"small":256}`, api.ValidationError, "small: expected a whole number of 8 bits, not negative, got number 256"},
		{lenient, `{"small":-1}`, api.ValidationError, "small: expected"},
		{lenient, `{"open":"yes"}`, api.ValidationError, "open: expected true or false, got string"},
		{lenient, `{"ratio":[]}`, api.ValidationError, "ratio: expected a number, got array"},
		{lenient, `{"cost_usd":"1"}`, api.ValidationError, "cost_usd: expected a number, got string"},
		{lenient, `{"cost_usd":1e-10}`, api.ValidationError, `cost_usd: "1e-10": more than nine decimals`},
		{lenient, `{"at":"tomorrow"}`, api.ValidationError, "at: "},
		{lenient, `{"queues":"q"}`, api.ValidationError, "queues: expected an array, got string"},
		{lenient, `{"queues":["a",1]}`, api.ValidationError, "queues[1]: expected a string, got number"},
		{lenient, `{"tags":{"a":1}}`, api.ValidationError, "tags.a: expected a string, got number"},
		{lenient, `{"tags":[]}`, api.ValidationError, "tags: expected an object, got array"},
		{lenient, `{"steps":[{},{"queue":"q","delay":"5s"}]}`, api.ValidationError, "steps[1].delay: expected a whole number of 32 bits, got string"},
		{lenient, `{"by_id":{"x":{"delay":true}}}`, api.ValidationError, "by_id.x.delay: expected a whole number of 32 bits, got bool"},
		{lenient, `{"name":1,"count":"x","steps":[{"queue":{}}]}`, api.ValidationError, "name: expected a string, got number; count: expected a whole number of 64 bits, got string; steps[0].queue: expected a string, got object"},
		{lenient, `{"bytes":"%"}`, api.ValidationError, "bytes: illegal base64"},
		{lenient, `{"urgency":{}}`, api.ValidationError, "urgency: expected a string"},
		{lenient, `{"labels":{"a":1}}`, api.ValidationError, "labels.a: expected a string, got number"},
		{lenient, `{"name":"cut \ud83d"}`, api.ValidationError, "name: contains half of a surrogate pair"},
		{lenient, `{"name":"\ude00\ud83d"}`, api.ValidationError, "name: contains half of a surrogate pair"},
		{lenient, `{"name":"\uD83Dx"}`, api.ValidationError, "name: contains half of a surrogate pair"},
		{lenient, `{"tags":{"\ud83d":"x"}}`, api.ValidationError, "tags: contains half of a surrogate pair"},
		{lenient, `{"labels":{"\ud83d":"x"}}`, api.ValidationError, "labels: contains half of a surrogate pair"},

		{strict, `{"nam":"x"}`, api.ValidationError, "nam: no such field here"},
		{strict, `{"a":1,"name":"x","steps":[{"queue":"q","b":1}]}`, api.ValidationError, "a: no such field here; steps[0].b: no such field here"},
		{strict, `{"a":1,"name":2}`, api.ValidationError, "a: no such field here; name: expected a string, got number"},
		{strict, `{"b\u0022":1,"a":1}`, api.ValidationError, "b\": no such field here; a: no such field here"},
		{strict, `{ "steps" : [ { "queue" : "q" } , { "delay" : 1.5 } ] }`, api.ValidationError, "steps[1].delay: expected a whole number of 32 bits, got number 1.5"},
		{strict, `{"name":"x","steps":[{"delay":1,"Delay":2}],"n\u0061me":"y"}`, api.ValidationError, "steps[0].Delay: is there twice; name: is there twice"},
		{strict, `{"-":1}`, api.ValidationError, "-: no such field here"},
		{strict, `{"Excluded":1}`, api.ValidationError, "Excluded: no such field here"},
		{strict, `{"a"}`, api.ParseError, "at byte 5"},
	} {
		p := wantProblem(t, c.node.do("POST", "/", c.body), c.code)
		if !strings.Contains(p.Error, c.message) {
			t.Errorf("%s: says %q, want %q", c.body, p.Error, c.message)
		}
		if c.code == api.ParseError && p.Details["position"] == nil {
			t.Errorf("%s: no position in %v", c.body, p.Details)
		}
		if c.code == api.ValidationError && p.Details["fields"] == nil {
			t.Errorf("%s: no fields in %v", c.body, p.Details)
		}
	}
}

// TestDecodeStrictTakesWhatItKnows checks that strict decoding accepts raw JSON and types with their own
// decoder, whatever their fields.
func TestDecodeStrictTakesWhatItKnows(t *testing.T) {
	t.Parallel()
	got := false
	n := decodeOn(t, true, func(order) { got = true })
	w := n.do("POST", "/", `{"name":"x","payload":{"any":1},"any":{"thing":1},"raw":{"k":{"v":1}},"tags":{"k":"v"},"note":1,"labels":{"k":"v"},"at":"2026-01-01T00:00:00Z","bytes":"AA=="}`)
	if !got {
		t.Errorf("answer is %d %s", w.Code, w.Body)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	n := decodeOn(t, true, func(order) { t.Error("decoded") })
	body := `{"steps":[` + strings.Repeat(`{"delay":"x"},`, 3*maxFaults) + `{}]}`
	p := wantProblem(t, n.do("POST", "/", body), api.ValidationError)
	if got := len(p.Details["fields"].([]any)); got != maxFaults {
		t.Errorf("%d faults are listed, want %d", got, maxFaults)
	}
}

// TestBodyIsNotShared checks that a decoded value stays intact when the buffer of its body is reused.
func TestBodyIsNotShared(t *testing.T) {
	t.Parallel()
	var kept []order
	n := decodeOn(t, false, func(o order) { kept = append(kept, o) })
	for _, name := range []string{"first", "other"} {
		n.do("POST", "/", `{"name":"`+name+`","payload":{"name":"`+name+`"},"raw":{"a":"`+name+`"}}`)
	}
	if kept[0].Name != "first" || string(kept[0].Payload) != `{"name":"first"}` || string(kept[0].Raw["a"]) != `"first"` {
		t.Errorf("the first body became %+v", kept[0])
	}
}

// FuzzDecode checks that no body causes a panic, that a refusal blames the client, and that an accepted
// body is decoded completely.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"name":"x","steps":[{"delay":1}]}`, `{"raw":{"a":null}}`, `{"count":1.5}`, `{"x":{}}`, `{"name":"\ud83d"}`, `[[[[`, `{"cost_usd":1e400}`} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, strict bool) {
		r := httptest.NewRequest("POST", "/", nil)
		r = r.WithContext(&call{Context: r.Context(), endpoint: &endpoint{Route: Route{Strict: strict}}})
		var o order
		err := Decode(r, body, &o)
		if code := api.CodeOf(err); err != nil && code != api.ParseError && code != api.ValidationError {
			t.Fatalf("%q is %v", body, err)
		}
		if err == nil && len(strings.TrimSpace(string(body))) > 0 && !json.Valid(body) {
			t.Fatalf("%q is no JSON, yet taken", body)
		}
		if !json.Valid(body) || !utf8.Valid(body) || text.LoneSurrogate(body) >= 0 {
			return
		}
		// Decode finds a fault exactly where encoding/json does.
		text := blanksToNull(body, &o)
		refused := json.Unmarshal(text, new(order)) != nil
		if faults := faultsOf(text, &o, false); refused != (len(faults) > 0) {
			t.Fatalf("%q, which became %q, is refused: %v; faults: %v", body, text, refused, faults)
		}
	})
}
