package misuse

import "testing"

// nearest suggests the nearest name, up to the bound of typos and not above it.
func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"bench", "queue", "queues", "search", "secret-file", "server"}
	for word, want := range map[string]string{
		"serch": "search", "serve": "server", "qeue": "queue", "quues": "queues", "secret": "secret-file",
		"quxyz": "", "x": "", "": "", "ab": "", "sxxrch": "search", "sxxxch": "", "bench": "bench",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("%q was meant for %q, want %q", word, got, want)
		}
	}
}
