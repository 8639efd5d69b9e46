package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
)

const ask transport.Kind = 40

func TestCallsReachProcessesAndGroups(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, net *memnet.Net) {
		w := newWorld(t, net, "a", "b")
		ga, gb := w.group("a"), w.group("b")
		w.node["b"].Handle(ask, func(_ context.Context, from transport.Peer, request []byte) ([]byte, error) {
			return fmt.Appendf(nil, "process %s %s", from.ID, request), nil
		})
		gb.Handle(ask, func(_ context.Context, from transport.Peer, request []byte) ([]byte, error) {
			return fmt.Appendf(nil, "group %s %s", from.ID, request), nil
		})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				text := fmt.Sprint(i)
				got, err := w.node["a"].Call(within(t), w.to("b"), ask, []byte(text))
				if err != nil || string(got) != "process a "+text {
					t.Errorf("%q, %v", got, err)
				}
				got, err = ga.Call(within(t), w.to("b"), ask, []byte(text))
				if err != nil || string(got) != "group a "+text {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestACallAndItsAnswerAreBounded(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, net *memnet.Net) {
		w := newWorld(t, net, "a", "b")
		w.node["b"].Handle(ask, echo)
		w.node["b"].Handle(ask+1, func(_ context.Context, _ transport.Peer, request []byte) ([]byte, error) {
			return append(request, 0), nil
		})
		most := bytes.Repeat([]byte("0123456789abcdef"), transport.MaxCall/16)
		got, err := w.node["a"].Call(within(t), w.to("b"), ask, most)
		if err != nil || !bytes.Equal(got, most) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if _, err = w.node["a"].Call(within(t), w.to("b"), ask, append(most, 0)); api.CodeOf(err) != api.PayloadTooLarge {
			t.Errorf("a request one byte too long: %v", err)
		}
		if _, err = w.node["a"].Call(within(t), w.to("b"), ask+1, most); api.CodeOf(err) != api.PayloadTooLarge {
			t.Errorf("an answer one byte too long: %v", err)
		}
	})
}

func TestErrorsArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memnet.New(), "a", "b")
	want := &api.Error{
		Code: api.QueueFull, Message: "the queue is full; wait", RetryAfter: 1500 * time.Millisecond,
		Details: map[string]any{"queue": "q", "fields": []api.FieldError{{Field: "jobs[0]", Error: "too many"}}},
	}
	w.node["b"].Handle(ask, func(context.Context, transport.Peer, []byte) ([]byte, error) { return nil, want })
	w.node["b"].Handle(ask+1, func(context.Context, transport.Peer, []byte) ([]byte, error) {
		return nil, errors.New("a bug")
	})
	_, err := w.node["a"].Call(within(t), w.to("b"), ask, nil)
	var got *api.Error
	if !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v", err)
	}
	_, err = w.node["a"].Call(within(t), w.to("b"), ask+1, nil)
	if api.CodeOf(err) != api.Internal || !strings.Contains(err.Error(), "a bug") || transport.Unsent(err) {
		t.Errorf("%v", err)
	}
}

func TestACallEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, net *memnet.Net) {
		w := newWorld(t, net, "a", "b")
		began, ended := make(chan time.Time, 1), make(chan error, 1)
		w.node["b"].Handle(ask, func(ctx context.Context, _ transport.Peer, _ []byte) ([]byte, error) {
			at, _ := ctx.Deadline()
			began <- at
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := w.node["a"].Call(ctx, w.to("b"), ask, nil)
			failed <- err
		}()
		if left := time.Until(<-began); left < 50*time.Minute || left > 70*time.Minute {
			t.Errorf("the handler has %v, the caller an hour", left)
		}
		cancel()
		if err := <-failed; api.CodeOf(err) != api.LeaderUnavailable || transport.Unsent(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler's context ended with %v", err)
		}
	})
}

func TestUnsentIsSaidOfWhatNobodySaw(t *testing.T) {
	t.Parallel()
	net := memnet.New()
	w := newWorld(t, net, "a", "b")
	a := w.node["a"]
	ga := w.group("a")
	unsent := func(what string, err error, want bool) {
		t.Helper()
		if api.CodeOf(err) != api.LeaderUnavailable || transport.Unsent(err) != want {
			t.Errorf("%s: %v, unsent %v", what, err, transport.Unsent(err))
		}
	}
	_, err := a.Call(within(t), transport.Peer{ID: "b", Address: "b:1"}, ask, nil)
	unsent("nobody listens", err, true)
	eventually(t, "b is called at its address", func() bool {
		_, err = a.Call(within(t), w.to("b"), ask, nil)
		return strings.Contains(err.Error(), "not answered here")
	})
	unsent("no handler", err, true)
	_, err = ga.Call(within(t), w.to("b"), ask, nil)
	unsent("no group", err, true)
	_, err = a.Call(within(t), transport.Peer{ID: "x"}, ask, nil)
	unsent("no address", err, true)
	_, err = a.Call(within(t), w.to("a"), ask, nil)
	unsent("itself", err, true)

	seen, wait := make(chan bool), make(chan bool)
	w.node["b"].Handle(ask, func(context.Context, transport.Peer, []byte) ([]byte, error) {
		seen <- true
		<-wait
		return nil, nil
	})
	failed := make(chan error)
	go func() {
		_, err := a.Call(within(t), w.to("b"), ask, nil)
		failed <- err
	}()
	<-seen
	net.Break("a", "b")
	unsent("the connection broke while it was answered", <-failed, false)
	close(wait)
}
