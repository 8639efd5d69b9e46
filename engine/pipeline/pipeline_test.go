package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

func TestBatchesWhatGathersMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t)
		ctx := t.Context()
		var answers []<-chan answer
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			answers = append(answers, propose(ctx, p, op{name: name}))
			synctest.Wait()
		}
		if got := fmt.Sprint(l.names()); got != "[[a]]" {
			t.Fatalf("in flight: %s", got)
		}
		if ops, bytes := p.Backlog(); ops != 4 || bytes != 4 {
			t.Errorf("backlog %d ops, %d bytes", ops, bytes)
		}
		l.entries[0].settled <- nil
		synctest.Wait()
		if got := fmt.Sprint(l.names()); got != "[[a] [b c d e]]" {
			t.Fatalf("after the first returned: %s", got)
		}
		l.entries[1].settled <- nil
		for i, want := range []string{"a 1", "b 2", "c 2", "d 2", "e 2"} {
			got := <-answers[i]
			if got.err != nil || fmt.Sprint(got.result, " ", got.at.Index) != want {
				t.Errorf("proposal %d answered %v at %d: %v, want %s", i, got.result, got.at.Index, got.err, want)
			}
		}
		h := l.entries[1].Header
		if h.Level != 5 || h.Incarnation != (entry.Incarnation{9}) {
			t.Errorf("level %d, incarnation %v", h.Level, h.Incarnation)
		}
		if first := l.entries[0].Header.Seed; h.Seed == (entry.Seed{}) || h.Seed == first {
			t.Errorf("the seed is %v after %v", h.Seed, first)
		}
	})
}

// TestFullEntryGoesAhead checks that a full entry, by ops or by bytes, is appended while the one before is in
// flight. An entry with one op less waits, and so do all entries beyond MaxInFlight.
func TestFullEntryGoesAhead(t *testing.T) {
	for name, limits := range map[string]Limits{"ops": {EntryOps: 3}, "bytes": {EntryBytes: 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, l := start(t, func(c *Config) { c.Limits = limits })
				for _, step := range []struct{ name, want string }{
					{"a", "[[a]]"}, {"b", "[[a]]"}, {"c", "[[a]]"}, {"d", "[[a] [b c d]]"},
					{"e", "[[a] [b c d]]"}, {"f", "[[a] [b c d]]"}, {"g", "[[a] [b c d]]"},
				} {
					propose(t.Context(), p, op{name: step.name})
					synctest.Wait()
					if got := fmt.Sprint(l.names()); got != step.want {
						t.Fatalf("with %s: %s, want %s", step.name, got, step.want)
					}
				}
				// Whichever entry returns, the full entry in the queue is next.
				l.entries[1].settled <- nil
				synctest.Wait()
				if got, want := fmt.Sprint(l.names()), "[[a] [b c d] [e f g]]"; got != want {
					t.Fatalf("after the second returned: %s, want %s", got, want)
				}
			})
		})
	}
}

func TestFirstGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t, func(c *Config) { c.First = op{name: "first"} })
		a := propose(t.Context(), p, op{name: "a"})
		synctest.Wait()
		if got := fmt.Sprint(l.names()); got != "[[first]]" {
			t.Fatalf("before the first was applied: %s", got)
		}
		select {
		case <-p.Started():
			t.Fatal("started before the first op was applied")
		default:
		}
		l.entries[0].settled <- nil
		synctest.Wait()
		<-p.Started()
		l.entries[1].settled <- nil
		if got := <-a; got.err != nil || got.at.Index != 2 {
			t.Errorf("answered %+v", got)
		}
	})
}

func TestFirstFails(t *testing.T) {
	for name, first := range map[string]op{
		"in the log":     {name: "first"},
		"by its content": {name: "first", invalid: errors.New("bad")},
		"to encode":      {name: "first", broken: errors.New("bad")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, l := start(t, func(c *Config) { c.First = first })
				a := propose(t.Context(), p, op{name: "a"})
				synctest.Wait()
				if len(l.entries) > 0 {
					l.entries[0].settled <- errStopped
				}
				<-p.Done()
				if got := <-a; got.err == nil || got.err != p.Err() {
					t.Errorf("answered %v, the pipeline says %v", got.err, p.Err())
				}
				select {
				case <-p.Started():
					t.Error("started")
				default:
				}
			})
		})
	}
}

func TestRefusesAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t)
		for _, test := range []struct {
			op   op
			code api.Code
		}{
			{op{name: "a", invalid: errors.New("bad")}, api.ValidationError},
			{op{name: "a", invalid: api.Errorf(api.InvalidFilter, "bad")}, api.InvalidFilter},
			{op{name: strings.Repeat("a", MaxOpBytes+1)}, api.PayloadTooLarge},
			{op{name: "a", class: classes}, api.Internal},
		} {
			_, _, err := p.Propose(t.Context(), test.op)
			wantCode(t, err, test.code)
		}
		largest := propose(t.Context(), p, op{name: strings.Repeat("a", MaxOpBytes)})
		synctest.Wait()
		l.entries[0].settled <- nil
		if got := <-largest; got.err != nil {
			t.Errorf("the largest op: %v", got.err)
		}
	})
}

func TestOneOpThatCannotBeEncodedFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t, func(c *Config) { c.First = op{name: "first"} })
		good := propose(t.Context(), p, op{name: "good"})
		synctest.Wait()
		broken := propose(t.Context(), p, op{name: "broken", broken: errors.New("bad")})
		lies := propose(t.Context(), p, op{name: "lies", lies: 1})
		synctest.Wait()
		last := propose(t.Context(), p, op{name: "last"})
		synctest.Wait()
		l.entries[0].settled <- nil
		synctest.Wait()
		l.entries[1].settled <- nil
		if got := fmt.Sprint(l.names()); got != "[[first] [good last]]" {
			t.Errorf("entries %s", got)
		}
		wantCode(t, (<-broken).err, api.Internal)
		wantCode(t, (<-lies).err, api.Internal)
		if g, w := <-good, <-last; g.result != "good" || w.result != "last" {
			t.Errorf("answered %+v and %+v", g, w)
		}
	})
}

func TestCancelledBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t, func(c *Config) { c.Limits.InFlight = 1 })
		first := propose(t.Context(), p, op{name: "a"})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b, c := propose(ctx, p, op{name: "b"}), propose(t.Context(), p, op{name: "c"})
		got := <-b // virtual time advances because all other goroutines wait
		wantCode(t, got.err, api.Overloaded)
		if !errors.Is(got.err, context.DeadlineExceeded) || !strings.Contains(got.err.Error(), "withdrawn") {
			t.Errorf("withdrawn with %v", got.err)
		}
		if ops, bytes := p.Backlog(); ops != 1 || bytes != 1 {
			t.Errorf("backlog %d ops, %d bytes", ops, bytes)
		}
		l.entries[0].settled <- nil
		synctest.Wait()
		l.entries[1].settled <- nil
		<-first
		<-c
		if got := fmt.Sprint(l.names()); got != "[[a] [c]]" {
			t.Errorf("entries %s", got)
		}
	})
}

func TestCancelledInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		a := propose(ctx, p, op{name: "a"})
		synctest.Wait()
		cancel()
		got := <-a
		wantCode(t, got.err, api.LeaderUnavailable)
		if !strings.Contains(got.err.Error(), "outcome is unknown") {
			t.Errorf("answered %v", got.err)
		}
		l.entries[0].settled <- nil
		b := propose(t.Context(), p, op{name: "b"})
		synctest.Wait()
		l.entries[1].settled <- nil
		if got := <-b; got.result != "b" {
			t.Errorf("the next proposal got %+v", got)
		}
	})
}

func TestStopAnswersWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t, func(c *Config) { c.Limits.InFlight = 1 })
		flying := propose(t.Context(), p, op{name: "a"})
		synctest.Wait()
		waiting := propose(t.Context(), p, op{name: "b"})
		synctest.Wait()
		p.Stop(errStopped)
		if got := <-waiting; got.err != errStopped {
			t.Errorf("waiting: %v", got.err)
		}
		if _, _, err := p.Propose(t.Context(), op{name: "c"}); err != errStopped {
			t.Errorf("later: %v", err)
		}
		l.entries[0].settled <- nil
		if got := <-flying; got.result != "a" {
			t.Errorf("in flight: %+v", got)
		}
		<-p.Done()
	})
}

func TestDrainFinishesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t, func(c *Config) { c.Limits.InFlight = 1 })
		flying := propose(t.Context(), p, op{name: "a"})
		synctest.Wait()
		waiting := propose(t.Context(), p, op{name: "b"})
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- p.Drain(t.Context(), errStopped) }()
		synctest.Wait()
		if _, _, err := p.Propose(t.Context(), op{name: "c"}); err != errStopped {
			t.Errorf("later: %v", err)
		}
		l.entries[0].settled <- nil
		synctest.Wait()
		l.entries[1].settled <- nil
		if a, b := <-flying, <-waiting; a.err != nil || b.err != nil {
			t.Errorf("answered %v and %v", a.err, b.err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := start(t, func(c *Config) { c.Limits.InFlight = 1 })
		propose(t.Context(), p, op{name: "a"})
		synctest.Wait()
		waiting := propose(t.Context(), p, op{name: "b"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Drain(ctx, errStopped); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if got := <-waiting; got.err != errStopped {
			t.Errorf("waiting: %v", got.err)
		}
	})
}

func TestFailedEntryFailsItsOps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t)
		a := propose(t.Context(), p, op{name: "a"})
		synctest.Wait()
		l.entries[0].settled <- errStopped
		if got := <-a; got.err != errStopped {
			t.Error(got.err)
		}
	})
}

func TestNoEntryWithoutRandomBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t, func(c *Config) { c.Rand = strings.NewReader("sixteen bytes...") })
		a := propose(t.Context(), p, op{name: "a"})
		synctest.Wait()
		l.entries[0].settled <- nil
		if got := <-a; got.err != nil {
			t.Error(got.err)
		}
		_, _, err := p.Propose(t.Context(), op{name: "b"})
		wantCode(t, err, api.Internal)
		if !errors.Is(err, io.EOF) || len(l.entries) != 1 {
			t.Errorf("%d entries, error %v", len(l.entries), err)
		}
	})
}
