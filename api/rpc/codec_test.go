package rpc

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api/workerpb"
)

// A message of many small items is refused before it needs a hundred times its size in memory.
func TestFieldsAtTheBound(t *testing.T) {
	t.Parallel()
	full := &workerpb.StreamLifecycleRequest{WorkerId: strings.Repeat("w", 2*MaxFields)}
	for range MaxFields - 1 {
		full.Acks = append(full.Acks, &workerpb.AckBatchItem{})
	}
	for _, c := range []struct {
		more int
		fits bool
	}{{0, true}, {1, false}} {
		for range c.more {
			full.Acks = append(full.Acks, &workerpb.AckBatchItem{})
		}
		data, err := Codec{}.Marshal(full)
		if err != nil {
			t.Fatal(err)
		}
		var got workerpb.StreamLifecycleRequest
		err = Codec{}.Unmarshal(data, &got)
		if (err == nil) != c.fits {
			t.Errorf("%d fields: %v, want it to fit: %v", len(full.Acks)+1, err, c.fits)
		}
		want := 0
		if c.fits {
			want = len(full.Acks)
		}
		if len(got.Acks) != want {
			t.Errorf("%d fields: %d acks are decoded, want %d", len(full.Acks)+1, len(got.Acks), want)
		}
	}
	// The decoder reports damaged data, also after many fields.
	broken := append([]byte(strings.Repeat("\x0a\x01w", MaxFields-1)), 0xff)
	if err := checkFields(broken); err != nil {
		t.Error(err)
	}
}
