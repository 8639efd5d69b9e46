package rpc

import (
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api/workerpb"
)

// A JSON message may have as many objects as a binary one has fields. Braces in its documents do not
// count.
func TestObjectsAtTheBound(t *testing.T) {
	t.Parallel()
	document := `"resultJson":"{\"a\\\":[{{{"`
	for more, fits := range []bool{true, false} {
		items := strings.Repeat(`{`+document+`},`, MaxFields-2+more) + `{}`
		var got workerpb.AckBatchRequest
		if err := jsonCodec("json").Unmarshal([]byte(`{"items":[`+items+`]}`), &got); (err == nil) != fits || !fits && len(got.Items) > 0 {
			t.Errorf("%d objects: %v, %d items", MaxFields+more, err, len(got.Items))
		}
	}
	for _, broken := range []string{`"`, `"\`, `{`, `x`, `"{\"`} {
		_ = checkObjects([]byte(strings.Repeat(broken, 2*MaxFields+1)))
	}
}

// A message with the most objects needs little memory.
func TestObjectsDoNotAmplify(t *testing.T) {
	const most = 8 << 20 // bytes
	for field, m := range map[string]proto.Message{"items": &workerpb.AckBatchRequest{}, "acks": &workerpb.StreamLifecycleRequest{}, "enqueues": &workerpb.StreamLifecycleRequest{}} {
		var before, after runtime.MemStats
		text := []byte(`{"` + field + `":[` + strings.Repeat(`{},`, MaxFields-2) + `{}]}`)
		runtime.ReadMemStats(&before)
		if err := jsonCodec("json").Unmarshal(text, m); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > most {
			t.Errorf("%s: %d bytes allocate %d", field, len(text), made)
		} else {
			t.Logf("%s: %d bytes allocate %d", field, len(text), made)
		}
	}
}

// In everything else the codec behaves like Connect's.
func TestJSON(t *testing.T) {
	t.Parallel()
	m := &workerpb.AckRequest{JobId: "j", ResultJson: `{"a":1}`}
	text, err := jsonCodec("json").Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var got workerpb.AckRequest
	if err := jsonCodec("json").Unmarshal(append(text[:len(text)-1], `,"newer":[{}]}`...), &got); err != nil || !proto.Equal(&got, m) {
		t.Errorf("%v, %v", &got, err)
	}
	if err := jsonCodec("json").Unmarshal(nil, &got); err == nil {
		t.Error("nothing is a message")
	}
	if _, err := jsonCodec("json").Marshal("text"); err == nil {
		t.Error("a string is a message")
	}
}
