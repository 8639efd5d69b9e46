package job_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

var before = job.ID{1: 1}

// origins has one origin of each kind, with the members that it adds to {} for the result 7.
var origins = map[string]struct {
	origin *job.Origin
	adds   string
}{
	"step":    {&job.Origin{Kind: job.OriginKind_ORIGIN_KIND_STEP, JobId: before[:], Queue: "q"}, `"previous":{"job_id":"ID","queue":"q","result":7}`},
	"failure": {&job.Origin{Kind: job.OriginKind_ORIGIN_KIND_FAILURE, JobId: before[:], Queue: "q", Attempt: 3, Error: "no \"way\"\n"}, `"failure":{"job_id":"ID","queue":"q","attempt":3,"error":"no \"way\"\n"}`},
	"exit":    {&job.Origin{Kind: job.OriginKind_ORIGIN_KIND_EXIT, JobId: before[:], Queue: "q", Outcome: job.ChainExited}, `"outcome":"exited","previous":{"job_id":"ID","queue":"q","result":7}`},
	"batch":   {&job.Origin{Kind: job.OriginKind_ORIGIN_KIND_BATCH, BatchId: before[:], Total: 6, Succeeded: 3, Failed: 2, Cancelled: 1}, `"batch":{"id":"BATCH","total":6,"succeeded":3,"failed":2,"cancelled":1}`},
}

func named(text string) string {
	text = strings.ReplaceAll(text, "BATCH", "batch_"+strings.TrimPrefix(before.String(), job.IDPrefix))
	return strings.ReplaceAll(text, "ID", before.String())
}

func TestComposeAdds(t *testing.T) {
	t.Parallel()
	for name, o := range origins {
		if got, want := string(job.Compose([]byte("{}"), o.origin, []byte("7"))), named("{"+o.adds+"}"); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := string(job.Compose(nil, origins["step"].origin, nil)); got != named(`{"previous":{"job_id":"ID","queue":"q","result":null}}`) {
		t.Errorf("of nothing: %s", got)
	}
}

// Compose keeps the payload's own text, except for members that have the name of an added one. It removes
// those.
func TestComposeKeepsTheRest(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"n":12345678901234567890.10}`:        `{"n":12345678901234567890.10,P}`,
		" { } \n":                              " {P} \n",
		`{ "a" : [ {"previous":1} , 2 ] }`:     `{ "a" : [ {"previous":1} , 2 ] ,P}`,
		`{"previous":0,"a":"},{\"previous\\"}`: `{"a":"},{\"previous\\",P}`,
		`{"a":1, "previous":{"b":[]}, "c":2}`:  `{"a":1, "c":2,P}`,
		`{"prev\u0069ous":1 , "a":1}`:          `{ "a":1,P}`,
		`{"previous":1,"previous":2}`:          `{P}`,
		`{"Previous":1,"":"previous"}`:         `{"Previous":1,"":"previous",P}`,
		`[1]`:                                  `[1]`,
		`"previous"`:                           `"previous"`,
		`7`:                                    `7`,
	} {
		want = strings.ReplaceAll(want, "P}", named(origins["step"].adds)+"}")
		if got := string(job.Compose([]byte(payload), origins["step"].origin, []byte("7"))); got != want {
			t.Errorf("%s became %s, want %s", payload, got, want)
		}
	}
	if got := job.Compose([]byte(`{"a":1}`), nil, []byte("7")); string(got) != `{"a":1}` {
		t.Errorf("a job that follows nothing gets %s", got)
	}
}

// FuzzCompose checks, for any payload and result, that the composed payload is JSON with the payload's other
// members as they were and the added members last.
func FuzzCompose(f *testing.F) {
	for _, payload := range []string{`{}`, `{"a":1}`, ` {"previous" : [1,{"x":"}"}] , "b":-0.0e+1 } `, `{"outcome":1,"failure":2,"batch":3}`, `{"\u0070revious":"\\\""}`} {
		f.Add([]byte(payload), []byte(`{"r":"é"}`), "boom\x00\u2028")
	}
	f.Fuzz(func(t *testing.T, payload, previous []byte, text string) {
		object := bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("{"))
		if !json.Valid(payload) || !object || len(previous) > 0 && !json.Valid(previous) {
			return
		}
		for name, o := range origins {
			origin := &job.Origin{Kind: o.origin.Kind, JobId: before[:], BatchId: before[:], Queue: "q", Error: text}
			got := job.Compose(payload, origin, previous)
			if !json.Valid(got) {
				t.Fatalf("%s: %q became %q, which is no JSON", name, payload, got)
			}
			own, is := members(t, payload), members(t, got)
			added := members(t, job.Compose([]byte("{}"), origin, previous))
			own = slices.DeleteFunc(own, func(m [2]string) bool {
				return slices.ContainsFunc(added, func(a [2]string) bool { return a[0] == m[0] })
			})
			if want := append(own, added...); !slices.Equal(is, want) {
				t.Fatalf("%s: %q became %q, with %q, want %q", name, payload, got, is, want)
			}
		}
	})
}

// members returns the names of an object's members and the texts of their values, in order.
func members(t *testing.T, object []byte) (all [][2]string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, [2]string{name.(string), string(value)})
	}
	return all
}
