package replica

import (
	"errors"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

var (
	ours   = entry.Applied{Group: "g", Incarnation: entry.Incarnation{1}}
	theirs = entry.Applied{Group: "g", Incarnation: entry.Incarnation{2}}
)

func at(of entry.Applied, index, term uint64) entry.Applied {
	of.Index, of.Term = index, term
	return of
}

func receivedAt(index, term uint64) manifest {
	m := newManifest(at(ours, index, term), nil, 1)
	m.Received = true
	return m
}

// TestCheck builds logs with the entries first to last, in term 1 up to index 10 and in term 2 from there.
func TestCheck(t *testing.T) {
	t.Parallel()
	other := ours
	other.Group = "h"
	tests := []struct {
		name        string
		applied     entry.Applied
		manifest    manifest
		first, last uint64
		bare        bool // the machine holds no configuration
		dropLog     bool
		refusal     string // part of it; empty = check accepts
	}{
		{name: "newly founded", first: 1, last: 1, bare: true},
		{name: "crash before the first flush: replay all", first: 1, last: 20, bare: true},
		{name: "clean shutdown", applied: at(ours, 20, 2), first: 1, last: 20},
		{name: "crash: replay the end", applied: at(ours, 10, 1), first: 1, last: 20},
		{name: "the log was cut behind the store", applied: at(ours, 15, 2), manifest: newManifest(at(ours, 12, 2), nil, 1), first: 9, last: 20},
		{name: "the log was cut right up to the store", applied: at(ours, 12, 2), manifest: newManifest(at(ours, 12, 2), nil, 1), first: 13, last: 20},
		{name: "the log was cut altogether", applied: at(ours, 20, 2), manifest: newManifest(at(ours, 20, 2), nil, 1)},
		{name: "a received snapshot ahead of the log", applied: at(ours, 30, 3), manifest: newManifest(at(ours, 30, 3), nil, 1), first: 1, last: 20, dropLog: true},
		{name: "a received snapshot in the middle of the log", applied: at(ours, 12, 2), manifest: receivedAt(12, 2), first: 1, last: 20},
		{name: "a received snapshot beside what was never agreed on", applied: at(ours, 12, 3), manifest: receivedAt(12, 3), first: 1, last: 20, dropLog: true},

		{name: "a snapshot of its own beside an older term", applied: at(ours, 12, 3), manifest: newManifest(at(ours, 12, 3), nil, 1), first: 1, last: 20, refusal: "in the log that entry is of term 2"},
		{name: "a received snapshot beside a newer term", applied: at(ours, 12, 1), manifest: receivedAt(12, 1), first: 1, last: 20, refusal: "in the log that entry is of term 2"},
		{name: "behind a received snapshot beside an older term", applied: at(ours, 14, 3), manifest: receivedAt(12, 3), first: 1, last: 20, refusal: "in the log that entry is of term 2"},
		{name: "another history in the store", applied: at(theirs, 10, 1), first: 1, last: 20, refusal: "the store belongs to"},
		{name: "another group in the store", applied: at(other, 10, 1), first: 1, last: 20, refusal: "the store belongs to"},
		{name: "another history in the manifest", applied: at(ours, 10, 1), manifest: newManifest(at(theirs, 5, 1), nil, 1), first: 1, last: 20, refusal: "the snapshot manifest belongs to"},
		{name: "store older than the snapshot", applied: at(ours, 11, 2), manifest: newManifest(at(ours, 12, 2), nil, 1), first: 13, last: 20, refusal: "what lay between is lost"},
		{name: "store older than the snapshot, log complete", applied: at(ours, 11, 2), manifest: newManifest(at(ours, 12, 2), nil, 1), first: 1, last: 20, refusal: "what lay between is lost"},
		{name: "store empty behind a snapshot", manifest: newManifest(at(ours, 12, 2), nil, 1), first: 1, last: 20, bare: true, refusal: "what lay between is lost"},
		{name: "store and snapshot of different terms", applied: at(ours, 12, 1), manifest: newManifest(at(ours, 12, 2), nil, 1), first: 1, last: 20, refusal: "the snapshot is of term 2"},
		{name: "log and store lost", bare: true, refusal: "both empty"},
		{name: "log lost", applied: at(ours, 12, 2), refusal: "the log ends at entry 0"},
		{name: "store ahead of the log", applied: at(ours, 25, 2), manifest: newManifest(at(ours, 12, 2), nil, 1), first: 1, last: 20, refusal: "the log ends at entry 20"},
		{name: "store ahead of the log by one", applied: at(ours, 21, 2), first: 1, last: 20, refusal: "the log ends at entry 20"},
		{name: "gap behind the store", applied: at(ours, 10, 1), first: 12, last: 20, refusal: "the log begins at entry 12"},
		{name: "gap before the first entry", first: 5, last: 20, bare: true, refusal: "the log begins at entry 5"},
		{name: "right before the log, and nothing vouches for it", applied: at(ours, 10, 1), first: 11, last: 20, refusal: "neither in the log nor covered"},
		{name: "right before the log, the snapshot is older", applied: at(ours, 10, 1), manifest: newManifest(at(ours, 9, 1), nil, 1), first: 11, last: 20, refusal: "neither in the log nor covered"},
		{name: "other term in the log", applied: at(ours, 12, 1), first: 1, last: 20, refusal: "in the log that entry is of term 2"},
		{name: "entry unreadable", applied: at(ours, 13, 2), first: 1, last: 20, refusal: "cannot be read (bad sector)"},
		{name: "no membership in the store", applied: at(ours, 12, 2), first: 1, last: 20, bare: true, refusal: "holds no membership"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dropLog, err := check(diskState{
				identity: ours, applied: test.applied, configured: !test.bare, manifest: test.manifest,
				first: test.first, last: test.last,
				termAt: func(index uint64) (uint64, error) {
					switch {
					case index < test.first || index > test.last:
						t.Errorf("asked for entry %d", index)
					case index == 13:
						return 0, errors.New("bad sector")
					case index <= 10:
						return 1, nil
					}
					return 2, nil
				},
			})
			if test.refusal == "" {
				if err != nil || dropLog != test.dropLog {
					t.Errorf("dropLog %v, error %v", dropLog, err)
				}
				return
			}
			if api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), test.refusal) || !strings.Contains(err.Error(), "restore this replica") {
				t.Errorf("refused with %v, want %q and what to do", err, test.refusal)
			}
		})
	}
}
