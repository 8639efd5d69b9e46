package fleet

import "testing"

// MaxWaiting requests may wait; a further one is refused at once.
func TestMaxWaiting(t *testing.T) {
	t.Parallel()
	var p pulse
	for i := range MaxWaiting {
		if !p.wait() {
			t.Fatalf("number %d of %d may not wait", i+1, MaxWaiting)
		}
	}
	if p.wait() {
		t.Errorf("more than %d may wait", MaxWaiting)
	}
	p.leave()
	if !p.wait() {
		t.Error("a place that was left is not free")
	}
}
