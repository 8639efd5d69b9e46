package engine

import (
	"testing"
	"time"

	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

// members makes a configuration of letters: a capital letter is a voter.
func members(of string) (all []replica.Peer) {
	for _, r := range of {
		voter := r < 'a'
		if voter {
			r += 'a' - 'A'
		}
		all = append(all, replica.Peer{ID: string(r), Voter: voter})
	}
	return all
}

func TestAutopilotDecides(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const long, short = 11 * time.Second, 9 * time.Second
	ok := contact{lastSeen: now, steadySince: now.Add(-short)}
	ready := contact{lastSeen: now, steadySince: now.Add(-long)}
	dead := contact{silentSince: now.Add(-long)}
	away := contact{silentSince: now.Add(-short)}
	tests := map[string]struct {
		members         string
		of              map[string]contact
		promote, remove string
	}{
		"a learner that keeps up":            {"ABc", map[string]contact{"b": ok, "c": ready}, "c", ""},
		"a learner not long enough":          {"ABc", map[string]contact{"b": ok, "c": ok}, "", ""},
		"a learner unheard of":               {"ABc", map[string]contact{"b": ok}, "", ""},
		"a dead learner":                     {"Ab", map[string]contact{"b": dead}, "", "b"},
		"a learner that is away":             {"Ab", map[string]contact{"b": away}, "", ""},
		"the dead of three":                  {"ABC", map[string]contact{"b": ok, "c": dead}, "", ""},
		"the dead of four":                   {"ABCD", map[string]contact{"b": ok, "c": ok, "d": dead}, "", "d"},
		"two dead of four":                   {"ABCD", map[string]contact{"b": ok, "c": dead, "d": dead}, "", ""},
		"two dead of five":                   {"ABCDE", map[string]contact{"b": ok, "c": ok, "d": dead, "e": dead}, "", "d"},
		"three dead of five":                 {"ABCDE", map[string]contact{"b": ok, "c": dead, "d": dead, "e": dead}, "", ""},
		"one dead of five, two not heard of": {"ABCDE", map[string]contact{"b": ok, "c": dead}, "", ""},
		"a vote before a removal":            {"ABCDe", map[string]contact{"b": ok, "c": ok, "d": dead, "e": ready}, "e", ""},
	}
	for name, test := range tests {
		a := &Autopilot{StableAfter: 10 * time.Second, RemoveAfter: 10 * time.Second}
		promote, remove := a.decide(now, "a", members(test.members), test.of)
		if promote != test.promote || remove != test.remove {
			t.Errorf("%s: promote %q, remove %q", name, promote, remove)
		}
	}
	a := &Autopilot{StableAfter: 10 * time.Second}
	if _, remove := a.decide(now, "a", members("Ab"), map[string]contact{"b": dead}); remove != "" {
		t.Errorf("it removes %q although it was not to", remove)
	}
}

func TestSkewed(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := map[string]struct {
		members string
		offsets map[string]time.Duration
		want    time.Duration
	}{
		"all right":                 {"ABC", map[string]time.Duration{"b": MaxSkew, "c": -MaxSkew}, 0},
		"the others are ahead":      {"ABC", map[string]time.Duration{"b": 3 * s, "c": 4 * s}, 3 * s},
		"the others are behind":     {"ABC", map[string]time.Duration{"b": -5 * s, "c": -4 * s}, -4 * s},
		"one is ahead, one behind":  {"ABC", map[string]time.Duration{"b": 3 * s, "c": -3 * s}, 0},
		"one of two measured":       {"ABC", map[string]time.Duration{"b": 3 * s}, 0},
		"two voters":                {"AB", map[string]time.Duration{"b": 3 * s}, 0},
		"learners have no say":      {"ABcde", map[string]time.Duration{"b": 3 * s, "c": 3 * s, "d": 3 * s, "e": 3 * s}, 0},
		"two of five are not most":  {"ABCDE", map[string]time.Duration{"b": 3 * s, "c": 3 * s, "d": 0, "e": 0}, 0},
		"three of five are":         {"ABCDE", map[string]time.Duration{"b": 3 * s, "c": 3 * s, "d": 3 * s, "e": 0}, 3 * s},
		"who is no member does not": {"ABC", map[string]time.Duration{"b": 3 * s, "x": 3 * s}, 0},
	}
	for name, test := range tests {
		var peers []transport.PeerStatus
		for id, offset := range test.offsets {
			peers = append(peers, transport.PeerStatus{Peer: transport.Peer{ID: id}, Offset: offset, Measured: true})
		}
		peers = append(peers, transport.PeerStatus{Peer: transport.Peer{ID: "c"}, Offset: 9 * s}) // measured long ago
		if got, right := skewed("a", members(test.members), peers); got != test.want || (got != 0) != (len(right) > 0) {
			t.Errorf("%s: off by %v, right: %v", name, got, right)
		}
	}
}
