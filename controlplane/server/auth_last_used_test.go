package server

import (
	"fmt"
	"strings"
	"testing"
)

// TestTheLastUseOfEndedCredentialsIsDropped checks that the times of use of ended credentials are dropped and
// that those of existing credentials stay.
func TestTheLastUseOfEndedCredentialsIsDropped(t *testing.T) {
	t.Parallel()
	newest := ""
	l := lastUsed{exists: func(id string) bool { return strings.HasPrefix(id, "kept") || id == newest }}
	const kept, ended = minLastUsed, 20 * minLastUsed
	for i := range kept {
		l.mark(fmt.Sprint("kept", i), 7)
	}
	for i := range ended {
		newest = fmt.Sprint("ended", i)
		l.mark(newest, 7)
		l.mark(newest, 8)
		if l.unix(newest) != 8 {
			t.Fatal("the last use of a credential in use is lost")
		}
	}
	ids := 0
	l.byID.Range(func(any, any) bool { ids++; return true })
	if ids > 2*(kept+1) || int64(ids) != l.entries.Load() {
		t.Errorf("%d times for %d credentials, and %d are counted", ids, kept+1, l.entries.Load())
	}
	for i := range kept {
		if l.unix(fmt.Sprint("kept", i)) != 7 {
			t.Fatalf("the last use of credential %d is lost", i)
		}
	}
}
