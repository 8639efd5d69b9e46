package serve

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corvo/corvo/api"
)

// hostile returns bodies of that size with a fault in their last value.
func hostile(size int) map[string]string {
	fill := func(part string) string { return strings.Repeat(part, size/len(part)) }
	return map[string]string{
		"objects": `{"steps":[` + fill(`{"queue":"q"},`) + `{"delay":"x"}]}`,
		"members": `{"by_id":{` + fill(`"k":{},`) + `"k":1}}`,
		"texts":   `{"queues":[` + fill(`"a",`) + `1]}`,
		"escapes": `{"tags":{` + fill(`"\u0061":"\u0061",`) + `"\ud83d":""}}`,
		"unknown": `{` + fill(`"u":[{}],`) + `"steps":0}`,
		"numbers": `{"count":1,` + fill(`"small":255,"open":true,"count":-77,`) + `"name":1}`,
		"raw":     `{"payload":"` + fill(`x`) + `","raw":{` + fill(`"k":[1],`) + `"k":""},"tags":1}`,
		"blanks":  `{"steps":[` + fill(`{"delay":""},`) + `{"delay":{}}]}`,
	}
}

// A large refused body costs no more than an accepted one: its fault is found in one pass, with memory
// for the fault only.
func TestFaultsAreFoundWithoutMemory(t *testing.T) {
	for what, body := range hostile(64 << 10) {
		text, v := []byte(body), new(order)
		if what == "blanks" {
			text = blanksToNull(text, v)
		}
		if got := faultsOf(text, v, false); len(got) != 1 {
			t.Fatalf("%s: %v", what, got)
		}
		if allocs := testing.AllocsPerRun(3, func() { faultsOf(text, v, false) }); allocs > 64 {
			t.Errorf("%s: to find the fault allocates %v times", what, allocs)
		}
		if allocs := testing.AllocsPerRun(3, func() { _ = Weigh(text, v) }); allocs > 4 {
			t.Errorf("%s: to weigh it allocates %v times", what, allocs)
		}
	}
}

// A refusal repeats at most lines of a body, however long its names and numbers and however many faults.
func TestRefusalsAreShort(t *testing.T) {
	t.Parallel()
	n := newNode(t, Route{Method: "POST", Path: "/", Permission: Open, MaxBody: 1 << 20,
		Handler: func(w http.ResponseWriter, r *http.Request) error { return DecodeJSON(r, new(order)) }})
	long := strings.Repeat("é", 100_000)
	for what, body := range map[string]string{
		"a name":         `{"by_id":{"` + long + `":{` + items(30, `"delay":"x"`) + `}}}`,
		"an escaped one": `{"by_id":{"` + strings.Repeat(`\u00e9`, 100_000) + `":{"delay":"x"}}}`,
		"a number":       `{"count":` + strings.Repeat("1", 100_000) + `}`,
		"a text":         `{"at":"` + long + `","urgency":"` + long + `","cost_usd":1.` + strings.Repeat("1", 100_000) + `}`,
	} {
		p := wantProblem(t, n.do("POST", "/", body), api.ValidationError)
		if len(p.Error) > maxFaults*2*(maxName+maxErrorBytes) || !utf8.ValidString(p.Error) || !strings.Contains(p.Error, "...") {
			t.Errorf("%s: %d bytes are answered: %.1000q", what, len(p.Error), p.Error)
		}
	}
}

// Names are decoded as encoding/json decodes them.
func TestUnquoted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{``, `plain`, `\"\\\/\b\f\n\r\t`, `\u0041\u00e9\u4e2d`, `\ud83d\ude00x`, `\\u0041`, `é😀`} {
		var want string
		if err := json.Unmarshal([]byte(`"`+name+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if got := string(unquoted(nil, []byte(name), maxName)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A body without a blank to replace is not copied.
func TestBlanksThatStay(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"name":"","count":"x"}`, `{"payload":"","tags":{"a":""},"queues":[""]}`} {
		body := []byte(text)
		if out := blanksToNull(body, new(order)); &out[0] != &body[0] {
			t.Errorf("%s became %s", text, out)
		}
	}
}

func BenchmarkFaults(b *testing.B) {
	for what, body := range hostile(20 << 20) {
		b.Run(what, func(b *testing.B) {
			text, v := []byte(body), new(order)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if what == "blanks" {
					text = blanksToNull([]byte(body), v)
				}
				if len(faultsOf(text, v, false)) == 0 {
					b.Fatal("no fault is found")
				}
			}
		})
	}
}
