package cell

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
)

// lateCell is a cell whose Close returns an error.
type lateCell struct {
	closed int
	err    error
}

func (c *lateCell) Close(context.Context) error {
	c.closed++
	return c.err
}

// TestAnOpeningIsPassedOn checks that the result of an opening that ends in time is returned unchanged, also on
// a disk that is full for a moment.
func TestAnOpeningIsPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		c := &lateCell{}
		for name, want := range map[string]error{"it succeeds": nil, "it fails": broken} {
			began := time.Now()
			full := func(string) (int64, error) {
				if time.Since(began) < fullLimit-fullCheckInterval {
					return 0, nil
				}
				return fullSpace, nil
			}
			open := func(Config) (*lateCell, error) {
				time.Sleep(2 * fullLimit)
				return c, want
			}
			if got, err := unlessFull(Config{Dir: t.TempDir()}, open, full); got != c || !errors.Is(err, want) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		if c.closed > 0 {
			t.Error("the cell was closed")
		}
	})
}

// TestAnOpeningOnAFullDiskIsGivenUp opens a cell while the disk stays full. The opening ends later: its cell is
// closed, and the log has the error of an opening or a closing that fails.
func TestAnOpeningOnAFullDiskIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open, close error
		closed      int
		logged      string
	}{
		"the cell opens":                  {closed: 1},
		"the opening fails":               {open: errors.New("no room to open"), logged: "no room to open"},
		"the cell opens and fails to end": {close: errors.New("no room to flush"), closed: 1, logged: "no room to flush"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				late := &lateCell{err: c.close}
				cfg := Config{Dir: t.TempDir(), Group: "test/0", Logger: slog.New(slog.NewTextHandler(&log, nil))}
				open := func(Config) (*lateCell, error) {
					time.Sleep(2 * fullLimit)
					return late, c.open
				}
				began := time.Now()
				got, err := unlessFull(cfg, open, func(string) (int64, error) { return fullSpace - 1, nil })
				if got != nil || api.CodeOf(err) != api.Unhealthy || !errors.Is(err, durable.ErrFull) {
					t.Fatalf("%v, %v", got, err)
				}
				if took := time.Since(began); took != fullLimit+fullCheckInterval {
					t.Errorf("it took %v", took)
				}
				time.Sleep(2 * fullLimit)
				synctest.Wait()
				if late.closed != c.closed {
					t.Errorf("the cell was closed %d times", late.closed)
				}
				if text := log.String(); c.logged == "" && text != "" || !strings.Contains(text, c.logged) {
					t.Errorf("the log has %q", text)
				}
			})
		})
	}
}
