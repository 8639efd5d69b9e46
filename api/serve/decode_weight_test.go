package serve

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// items returns n list items without brackets.
func items(n int, item string) string { return strings.Repeat(item+",", n-1) + item }

// The decoded size is limited per byte of a body: exactly the limit is accepted, one byte more is
// refused.
func TestWeighAtTheBound(t *testing.T) {
	t.Parallel()
	const n = 100_000
	body := `{"steps":[` + items(n, `{}`) + `]}`
	takes := n*listSlack*int(reflect.TypeFor[step]().Size()) + int(reflect.TypeFor[order]().Size())
	spaces := (takes-DecodedAnyway+DecodedPerByte-1)/DecodedPerByte - len(body)
	if spaces < 1 {
		t.Fatal(spaces)
	}
	for less, fits := range []bool{true, false} {
		var o order
		err := Weigh([]byte(body+strings.Repeat(" ", spaces-less)), &o)
		if (err == nil) != fits || err != nil && api.CodeOf(err) != api.PayloadTooLarge {
			t.Errorf("%d spaces less: %v", less, err)
		}
	}
}

// Small items are counted under every form of their name, and values that keep their size do not count.
func TestWeigh(t *testing.T) {
	const n = 150_000
	steps := `[` + items(n, `{}`) + `]`
	names := func(value string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%x":%s`, i, value)
		}
		return `{` + b.String()[1:] + `}`
	}
	deep := strings.Repeat(`[`, maxNesting-2) + strings.Repeat(`]`, maxNesting-2)
	for _, c := range []struct {
		what, body string
		fits       bool
	}{
		{"a list", `{"steps":` + steps + `}`, false},
		{"of nulls", `{"steps":[` + items(2*n, `null`) + `]}`, false},
		{"in white space", "\t{ \"steps\"\n: [" + items(n, "{} ") + `]}`, false},
		{"by another name", `{"STEPſ":` + steps + `}`, false},
		{"by an escaped one", `{"\u0073teps":` + steps + `}`, false},
		{"behind a string", `{"name":"\\","unknown":"]}\"","steps":` + steps + `}`, false},
		{"twice", `{"steps":[` + items(n/2, `{}`) + `],"steps":[` + items(n/2, `{}`) + `]}`, false},
		{"in a map", `{"by_id":` + names(`{}`) + `}`, false},
		{"in what decodes itself", `{"labels":{` + items(n, `"":""`) + `}}`, false},
		{"in anything", `{"any":[` + items(n, `0`) + `]}`, false},
		{"of lists in anything", `{"any":[` + items(n, `[]`) + `]}`, false},
		{"of raw JSON", `{"parts":{"a":{"note":1}},"raw":{` + items(n, `"":0`) + `}}`, false},
		{"of words", `{"queues":[` + items(4*n, `""`) + `]}`, false},

		{"raw", `{"payload":` + steps + `,"note":` + steps + `,"raw":{"a":` + names(`{}`) + `}}`, true},
		{"deep", `{"payload":` + deep + `,"name":"` + strings.Repeat("x", unweighed) + `"}`, true},
		{"unknown", `{"unknown":` + steps + `}`, true},
		{"unknown members", `{` + items(n, `"":0`) + `}`, true},
		{"long words", `{"queues":[` + items(n, `"abcdef"`) + `]}`, true},
		{"of another type", `{"name":` + steps + `,"steps":` + names(`0`) + `}`, true},
	} {
		var o order
		if err := Weigh([]byte(c.body), &o); (err == nil) != c.fits {
			t.Errorf("%s: %v", c.what, err)
		} else if c.fits && !json.Valid([]byte(c.body)) {
			t.Errorf("%s is no JSON", c.what)
		}
		body := []byte(c.body)
		if allocs := testing.AllocsPerRun(1, func() { _ = Weigh(body, &o) }); c.fits && allocs > 2 {
			t.Errorf("%s: weighing allocates %v times", c.what, allocs)
		}
	}
}

// Weigh terminates on text that is not JSON, which the decoder then refuses.
func TestWeighWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	for _, part := range []string{`{`, `[`, `}`, `]`, `{"any":[`, `{"steps":[`, `{"steps":[{]`, `{"steps":}`, `"`, `\"`, `{"steps":[,`, `{"by_id":{"":`, ":", ",", "\x00", `{"\`} {
		body := []byte(strings.Repeat(part, 1<<20/len(part)))
		var o order
		if err := Weigh(body, &o); err != nil && part != `{"any":[` {
			t.Errorf("%q: %v", part, err)
		}
		_ = Weigh(append([]byte(`{"steps":`), body...), &o)
		_ = Weigh(append([]byte(`{"any":`), body...), &o)
	}
}

// A map with one member has room for eight.
func TestSmallMapsAreWeighed(t *testing.T) {
	item := `{"a":{"":""},"b":{"":""}}`
	type maps struct {
		A map[string]string `json:"a"`
		B map[string]string `json:"b"`
	}
	body := `[` + items(10_000, item) + `]`
	least := 10_000 * 2 * (mapSize + mapSlots*int(2*reflect.TypeFor[string]().Size()))
	s := weigher{scanner{text: []byte(body)}, 1 << 40}
	s.value(reflect.TypeFor[[]maps](), 0)
	if took := 1<<40 - s.left; took < least {
		t.Errorf("%d bytes are weighed, and %d taken", took, least)
	}
}

// FuzzWeigh searches for a body that needs more memory than Weigh counted.
func FuzzWeigh(f *testing.F) {
	for _, seed := range []string{`{"steps":[{},{"queue":"\""}],"any":[[]]}`, `{"BY_ID":{"a":{}},"raw":{"\u0061":[1]},"x":"\\"}`, `{"labels":{"a":null}} `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		s := weigher{scanner{text: text}, 1 << 40}
		s.value(reflect.TypeFor[order](), 0)
		s.peek()
		if s.at != len(text) {
			t.Fatalf("the walk ends at %d of %d", s.at, len(text))
		}
		var o order
		if json.Unmarshal(text, &o) != nil {
			return
		}
		least := len(o.Steps)*int(reflect.TypeFor[step]().Size()) + 16*(len(o.Queues)+len(o.Labels)+len(o.Tags)+len(o.Raw)) + len(o.ByID)*int(reflect.TypeFor[step]().Size())
		if took := 1<<40 - s.left; took < least {
			t.Errorf("it weighs %d and takes %d", took, least)
		}
	})
}

// BenchmarkDecodeBatch decodes a batch, the largest body.
func BenchmarkDecodeBatch(b *testing.B) {
	type batch struct {
		Jobs []api.EnqueueRequest `json:"jobs"`
	}
	job := `{"queue":"mail","payload":{"to":"someone@example.com","lines":[` + items(200, `"some text of an order"`) + `],"ids":[` + items(2000, `12345678`) + `]},"priority":"high","tags":{"region":"eu","tenant":"t-17"}}`
	body := []byte(`{"jobs":[` + items(20<<20/len(job), job) + `]}`)
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			var into batch
			if err := Decode(httptest.NewRequest("POST", "/", nil), body, &into); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("weigh", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if err := Weigh(body, &batch{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
