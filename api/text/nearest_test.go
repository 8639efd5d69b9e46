package text

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"queue", "queues", "priority", "tags"}
	for word, want := range map[string]string{
		"prioritty": "priority", "prority": "priority", "quues": "queues", "qeue": "queue", "queue": "queue",
		"tag": "tags", "ta": "", "": "", "priority_of": "", "priority_": "priority", strings.Repeat("tags", 100): "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("%q was meant for %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 2}, {"kitten", "sitting", 3}, {"dir", "dri", 2},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q are %d letters, want %d", c.a, c.b, got, c.want)
		}
	}
}
