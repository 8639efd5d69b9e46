package serve

import (
	"strings"
	"testing"
)

// hostile are bodies of size bytes whose fault is their last value.
func hostile(size int) map[string]string {
	fill := func(part string) string { return strings.Repeat(part, size/len(part)) }
	return map[string]string{
		"objects": `{"steps":[` + fill(`{"queue":"q"},`) + `{"delay":"x"}]}`,
		"members": `{"by_id":{` + fill(`"k":{},`) + `"k":1}}`,
		"texts":   `{"queues":[` + fill(`"a",`) + `1]}`,
		"escapes": `{"tags":{` + fill(`"\u0061":"\u0061",`) + `"\ud83d":""}}`,
		"unknown": `{` + fill(`"u":[{}],`) + `"steps":0}`,
		"blanks":  `{"steps":[` + fill(`{"delay":""},`) + `{"delay":{}}]}`,
	}
}

// Who sends a large body that is refused gets no more of the node than who sends one that
// is taken: its fault is found in a pass over it, with memory for the fault alone.
func TestFaultsAreFoundWithoutMemory(t *testing.T) {
	for what, body := range hostile(64 << 10) {
		text, v := []byte(body), new(order)
		if what == "blanks" {
			text = blanksToNull(text, v)
		}
		if got := faultsOf(text, v, false); len(got) != 1 {
			t.Fatalf("%s: %v", what, got)
		}
		if allocs := testing.AllocsPerRun(3, func() { faultsOf(text, v, false) }); allocs > 64 && what != "escapes" {
			t.Errorf("%s: to find the fault allocates %v times", what, allocs)
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
