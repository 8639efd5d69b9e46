package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/host"
)

func TestIndexText(t *testing.T) {
	t.Parallel()
	const most = 1<<64 - 1
	every := make([]position, host.MaxShards)
	for i := range every {
		every[i] = position{uint32(i), most}
	}
	for _, at := range [][]position{{{0, 0}}, {{0, 1}}, {{1, 127}}, {{0, 128}, {3, 1 << 40}}, {{63, most}}, every} {
		text := encodeIndex(at...)
		if back, err := decodeIndex(text, host.MaxShards); err != nil || !slices.Equal(back, at) {
			t.Errorf("%v is %q is %v, %v", at, text, back, err)
		}
		if len(text) > maxIndexText {
			t.Errorf("%v takes %d characters, the bound is %d", at, len(text), maxIndexText)
		}
	}
	if encodeIndex(position{2, 7}, position{1, 9}) != encodeIndex(position{1, 9}, position{2, 7}) {
		t.Error("the order of positions shows")
	}
	good := encodeIndex(position{0, 300})
	twice := encodeIndex(position{1, 1}, position{1, 2})
	for _, bad := range []string{"", "7", "=", good[:len(good)-1], "AgAB", "AQ", twice, encodeIndex(position{2, 1}), strings.Repeat("A", maxIndexText+1), good + "="} {
		if at, err := decodeIndex(bad, 2); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%q is %v, %v", bad, at, err)
		}
	}
}
