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
		if c.fits && (err != nil || len(got.Acks) != len(full.Acks)) || !c.fits && (err == nil || len(got.Acks) > 0) {
			t.Errorf("%d fields: %v, %d acks", len(full.Acks)+1, err, len(got.Acks))
		}
	}
	// The decoder reports damaged data, also after many fields.
	broken := append([]byte(strings.Repeat("\x0a\x01w", MaxFields-1)), 0xff)
	if err := checkFields(broken); err != nil {
		t.Error(err)
	}
}
