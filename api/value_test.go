package api

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestPriority(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"critical"`: "0", `"high"`: "1", `"normal"`: "2", `"low"`: "2", `0`: "0", `1`: "1", `2`: "2", `""`: "absent", `null`: "absent",
		`"Critical"`: "error", `"urgent"`: "error", `3`: "error", `-1`: "error", `"0"`: "error", `99999999999999999999`: "refused", `1.5`: "refused", `{}`: "refused", `true`: "refused",
	} {
		got := func() string {
			var p Priority
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				return "refused"
			}
			level, ok, err := p.Level()
			switch {
			case err != nil:
				return "error"
			case !ok:
				return "absent"
			}
			return fmt.Sprint(level)
		}()
		if got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[Duration]time.Duration{"": time.Minute, "5s": 5 * time.Second, "1h30m": 90 * time.Minute, "0s": 0, DurationOf(7 * time.Hour): 7 * time.Hour} {
		if got, err := text.Parse(time.Minute); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, bad := range []Duration{"5", "-1s", "soon", "1d", " 5s"} {
		if got, err := bad.Parse(0); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 11, 10, 0, 15, 123456789, time.FixedZone("", 3600))
	if got, ok, err := TimeOf(at).Parse(); err != nil || !ok || !got.Equal(at) {
		t.Errorf("%s is %v, %v, %v", TimeOf(at), got, ok, err)
	}
	if text := TimeOf(at); text != "2026-02-11T09:00:15.123456789Z" {
		t.Errorf("%v is %s", at, text)
	}
	if _, ok, err := Time("").Parse(); ok || err != nil {
		t.Errorf("an absent time: %v, %v", ok, err)
	}
	for _, bad := range []Time{"tomorrow", "2026-02-11", "2026-02-11T10:00:00", "1770804000"} {
		if got, _, err := bad.Parse(); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

func TestStrings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Strings{`{"a":"b","c":null,"d":""}`: {"a": "b", "d": ""}, `{}`: nil, `{"a":null}`: nil, `null`: nil} {
		var got Strings
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for want, in := range map[string]Strings{`{}`: nil, `{"a":"b"}`: {"a": "b"}} {
		if text, err := json.Marshal(in); err != nil || string(text) != want {
			t.Errorf("%v is written %s, %v; want %s", in, text, err, want)
		}
	}
	var s Strings
	if json.Unmarshal([]byte(`{"a":1}`), &s) == nil {
		t.Error("a number was taken for a string")
	}
}

// The golden file spec/errors.md, which clients read, lists every code with its status.
func TestErrorsDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Error codes\n\nEvery answer other than success is `{\"error\",\"code\",\"details\"?}`. Branch on the code; the text is for people.\n" +
		"A request that is no valid HTTP keeps the status that HTTP has for it: 417, 501 and 505 with `UNSUPPORTED`, 431 with `PAYLOAD_TOO_LARGE`.\n" +
		"For retryable codes the same request may succeed later; `details.retry_after_ms` and `Retry-After`, where present, say when.\n" +
		"If `details.unchanged` is true, the request changed nothing and never will: it can be sent again without an Idempotency-Key.\n\n| code | status | retryable |\n|---|---|---|\n")
	for _, c := range Codes() {
		retryable := "no"
		if c.Retryable() {
			retryable = "yes"
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", c, c.Status(), retryable)
	}
	path := filepath.Join("spec", "errors.md")
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
		t.Errorf("%s differs from the codes; run the test with -rewrite", path)
	}
}
