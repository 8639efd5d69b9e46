package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

// TestTimeLimit checks that a time limit ends a proposal, queued or in flight, as the end of its context
// does. The timer must not end a later proposal that reuses the memory.
func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := start(t, func(c *Config) { c.Limits.InFlight = 1 })
		within := func(limit time.Duration, name string) <-chan answer {
			c := make(chan answer, 1)
			go func() {
				result, at, err := p.ProposeWithin(t.Context(), limit, op{name: name})
				c <- answer{result, at, err}
			}()
			synctest.Wait()
			return c
		}
		begun := time.Now()
		flies, waits := within(2*time.Minute, "flies"), within(time.Minute, "waits")
		got := <-waits
		if wantCode(t, got.err, api.Overloaded); !errors.Is(got.err, context.DeadlineExceeded) || !strings.Contains(got.err.Error(), "withdrawn") {
			t.Errorf("withdrawn with %v", got.err)
		}
		got = <-flies
		if wantCode(t, got.err, api.LeaderUnavailable); !errors.Is(got.err, ErrUnknown) || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("given up with %v", got.err)
		}
		if took := time.Since(begun); took != 2*time.Minute {
			t.Errorf("the limits ended after %v", took)
		}
		l.entries[0].settled <- nil
		synctest.Wait()
		for i, limit := range []time.Duration{time.Minute, 0, time.Hour, 0} {
			next := within(limit, "next")
			if limit == 0 {
				time.Sleep(24 * time.Hour) // longer than any limit before
			} else {
				time.Sleep(limit - 1)
			}
			l.entries[i+1].settled <- nil
			if got := <-next; got.err != nil || got.result != "next" {
				t.Errorf("with a limit of %v: answered %+v", limit, got)
			}
		}
	})
}
