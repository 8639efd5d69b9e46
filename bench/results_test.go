package main

import (
	"strings"
	"testing"
	"time"
)

// TestRatiosAreOfOneRound expects the median of each round's ratio, not the ratio of
// medians, because a disturbance of a round affects both of its measurements.
func TestRatiosAreOfOneRound(t *testing.T) {
	all := results{}
	for i, rate := range []float64{100, 10, 1000} {
		all.add(corvoName, enqueue32, outcome{rate: rate})
		all.add(bareHandler, enqueue32, outcome{rate: rate * float64(i+2)})
		all.add(corvoName, enqueue1, outcome{p50: 3 * time.Millisecond})
		all.add(bareHandler, enqueue1, outcome{p50: time.Millisecond})
		all.add(disk, sync4KiB, outcome{p50: time.Millisecond})
	}
	var text strings.Builder
	all.print(&text)
	for _, want := range []string{
		"| 1: HTTP enqueue, 32 clients | bare net/http handler | 0.33 |",
		"| 3: HTTP enqueue p50, 1 client, to a sync and | bare net/http handler | 1.50 |",
		"| enqueue, 32 clients | Corvo | 100 | - / - |",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("missing %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "River") {
		t.Errorf("a system that was not measured is in the results:\n%s", text.String())
	}
}

func TestPayloadSaysWhenItWasMade(t *testing.T) {
	for _, at := range []int64{0, 7, 1234567890, 1<<62 + 3} {
		if p := payload(at); len(p) != payloadBytes || madeAt(p) != at {
			t.Errorf("%s says %d, want %d", p, madeAt(p), at)
		}
	}
}
