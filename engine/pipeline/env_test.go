package pipeline

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// op is an op whose encoding is its name.
type op struct {
	name    string
	class   Class
	number  entry.Number // 0 = 7
	invalid error
	broken  error // returned by MarshalToSizedBufferVT
	lies    int   // bytes announced by SizeVT but not written
}

func (o op) Class() Class    { return o.class }
func (o op) Validate() error { return o.invalid }
func (o op) SizeVT() int     { return len(o.name) + o.lies }

func (o op) Number() entry.Number {
	if o.number == 0 {
		return 7
	}
	return o.number
}

func (o op) MarshalToSizedBufferVT(to []byte) (int, error) { return copy(to, o.name), o.broken }

// log is a log in memory. An appended entry stays in flight until the test settles it. The result of each op
// is its name.
type log struct {
	t       *testing.T
	entries []*logged
}

type logged struct {
	entry.Entry
	at      entry.Position
	settled chan error
}

func (l *log) append(encoded []byte) Future {
	e, err := entry.Decode(encoded)
	if err != nil {
		l.t.Error(err)
	}
	one := &logged{Entry: e, at: entry.Position{Index: uint64(len(l.entries) + 1), Term: 3}, settled: make(chan error, 1)}
	l.entries = append(l.entries, one)
	return one
}

func (e *logged) Wait() ([]any, entry.Position, error) {
	if err := <-e.settled; err != nil {
		return nil, entry.Position{}, err
	}
	var results []any
	for _, o := range e.Ops {
		results = append(results, string(o.Bytes))
	}
	return results, e.at, nil
}

// names returns the names of the ops of each entry.
func (l *log) names() [][]string {
	all := [][]string{}
	for _, e := range l.entries {
		var names []string
		for _, o := range e.Ops {
			names = append(names, string(o.Bytes))
		}
		all = append(all, names)
	}
	return all
}

// start starts a pipeline on a log in memory, at the present (virtual) time.
func start(t *testing.T, change ...func(*Config)) (*Pipeline, *log) {
	t.Helper()
	l := &log{t: t}
	c := Config{Env: Env{
		Append: l.append, Now: time.Now, Level: func() uint32 { return 5 },
		Rand: rand.NewChaCha8([32]byte{1}),
	}, Incarnation: entry.Incarnation{9}}
	for _, f := range change {
		f(&c)
	}
	p := Start(c)
	t.Cleanup(func() {
		p.Stop(errStopped)
		for _, e := range l.entries {
			select {
			case e.settled <- nil:
			default:
			}
		}
		<-p.Done()
	})
	return p, l
}

var errStopped = api.Errorf(api.LeaderUnavailable, "stopped")

// answer holds the results of Propose.
type answer struct {
	result any
	at     entry.Position
	err    error
}

// propose calls Propose on another goroutine.
func propose(ctx context.Context, p *Pipeline, o op) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		result, at, err := p.Propose(ctx, o)
		c <- answer{result, at, err}
	}()
	return c
}

func wantCode(t *testing.T, err error, code api.Code) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error is %v, want code %s", err, code)
	}
}
