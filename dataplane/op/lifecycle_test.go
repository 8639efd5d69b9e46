package op_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/state/event"
)

// tells says which event of the feed tells of an event of the lifecycle.
var tells = map[job.Event]state.EventType{
	job.OnEnqueue:     state.EventType_EVENT_ENQUEUED,
	job.OnSchedule:    state.EventType_EVENT_SCHEDULED,
	job.OnPromote:     state.EventType_EVENT_PROMOTED,
	job.OnFetch:       state.EventType_EVENT_STARTED,
	job.OnRenew:       state.EventType_EVENT_RENEWED,
	job.OnReturn:      state.EventType_EVENT_RETURNED,
	job.OnAck:         state.EventType_EVENT_COMPLETED,
	job.OnContinue:    state.EventType_EVENT_CONTINUED,
	job.OnAwait:       state.EventType_EVENT_CONTINUED,
	job.OnSuspend:     state.EventType_EVENT_HELD,
	job.OnRetry:       state.EventType_EVENT_FAILED,
	job.OnExhaust:     state.EventType_EVENT_DEAD,
	job.OnReclaim:     state.EventType_EVENT_RECLAIMED,
	job.OnReclaimLast: state.EventType_EVENT_DEAD,
	job.OnCancel:      state.EventType_EVENT_CANCELLED,
	job.OnStop:        state.EventType_EVENT_CANCELLING,
	job.OnLetGo:       state.EventType_EVENT_CANCELLED,
	job.OnHold:        state.EventType_EVENT_HELD,
	job.OnApprove:     state.EventType_EVENT_APPROVED,
	job.OnReject:      state.EventType_EVENT_REJECTED,
	job.OnExpire:      state.EventType_EVENT_EXPIRED,
	job.OnBlock:       state.EventType_EVENT_DEAD,
	job.OnDrop:        state.EventType_EVENT_DEAD,
	job.OnPostpone:    state.EventType_EVENT_DEBOUNCED,
	job.OnRevive:      state.EventType_EVENT_REVIVED,
}

// TestEveryTransitionIsTold walks the lifecycle. The op of each transition writes an event that appears in a
// story and that clients receive. The store itself ensures that no op changes a state without an event.
func TestEveryTransitionIsTold(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if events, ok := strings.CutPrefix(line, "feed: "); ok {
				for e := range strings.SplitSeq(strings.TrimSpace(events), ", ") {
					word, _, _ := strings.Cut(e, " ")
					told[word] = true
				}
			}
		}
	}
	rows := 0
	for from := range job.State(job.States) {
		for on := job.Event(0); !strings.HasPrefix(on.String(), "event("); on++ {
			to, ok := job.Transition(from, on)
			if !ok {
				continue
			}
			rows++
			e, ok := tells[on]
			if !ok || !told[strings.ToLower(strings.TrimPrefix(e.String(), "EVENT_"))] {
				t.Errorf("%s to %s on %s: no story tells of it (%s)", from.Word(), to.Word(), on, e)
			}
			if _, ok := event.Word(e); !ok && on != job.OnRenew { // a lease is renewed all the time
				t.Errorf("%s to %s on %s: clients are not told of %s", from.Word(), to.Word(), on, e)
			}
		}
	}
	if rows < 30 {
		t.Errorf("the lifecycle has %d rows", rows)
	}
}
