package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
)

func beat(w *world, g *transport.Group, to string, term uint64) error {
	return g.AppendEntries(raft.ServerID(to), raft.ServerAddress(w.at[to]), &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ID: []byte("a"), Addr: []byte("a")}, Term: term,
	}, &raft.AppendEntriesResponse{})
}

func entriesOf(count, size int) *raft.AppendEntriesRequest {
	r := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ID: []byte("a"), Addr: []byte("a")}, Term: 1}
	for i := range count {
		r.Entries = append(r.Entries, &raft.Log{Index: uint64(i + 1), Term: 1, Data: bytes.Repeat([]byte{1}, size)})
	}
	return r
}

// TestHeartbeatsPassWhatRaftIsBusyWith checks that a node answers heartbeats while its raft is busy with
// entries.
func TestHeartbeatsPassWhatRaftIsBusyWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b")
		a, b := w.group("a"), w.group("b")
		b.SetHeartbeatHandler(func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil) })
		busy := make(chan error, 1)
		go func() {
			busy <- a.AppendEntries("b", raft.ServerAddress(w.at["b"]), entriesOf(3, 1<<20), &raft.AppendEntriesResponse{})
		}()
		synctest.Wait()
		start := time.Now()
		for term := range uint64(10) {
			if err := beat(w, a, "b", 1+term/3); err != nil || time.Since(start) != 0 {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
		select {
		case <-busy:
			t.Error("raft was not busy")
		default:
		}
		rpc := <-b.Consumer()
		rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
		if err := <-busy; err != nil {
			t.Error(err)
		}
	})
}

// TestAGroupWhoseDiskHangsDoesNotHoldUpOthers checks that the heartbeat of one group succeeds while another
// group's first heartbeat of a term waits for the disk.
func TestAGroupWhoseDiskHangsDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b")
		disk := make(chan bool)
		var groups []*transport.Group
		for i := range 2 {
			name := fmt.Sprint("group ", i)
			for _, id := range w.ids {
				g, err := w.node[id].Group(name, incarnation)
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				if id == "a" {
					groups = append(groups, g)
				}
				g.SetHeartbeatHandler(func(rpc raft.RPC) {
					if i == 0 {
						<-disk
					}
					rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
				})
			}
		}
		hung := make(chan error, 1)
		go func() { hung <- beat(w, groups[0], "b", 1) }()
		synctest.Wait()
		if err := beat(w, groups[1], "b", 1); err != nil {
			t.Error(err)
		}
		close(disk)
		if err := <-hung; err != nil {
			t.Error(err)
		}
	})
}

// TestAHeartbeatToRaftThatStopsFailsAtOnce exists because raft does not answer a heartbeat while it shuts
// down.
func TestAHeartbeatToRaftThatStopsFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b")
		a, b := w.group("a"), w.group("b")
		b.SetHeartbeatHandler(func(raft.RPC) {})
		start := time.Now()
		if err := beat(w, a, "b", 1); err == nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		b.SetHeartbeatHandler(nil)
		go func() { rpc := <-b.Consumer(); rpc.Respond(&raft.AppendEntriesResponse{}, errors.New("raft says no")) }()
		if err := beat(w, a, "b", 1); err == nil || !strings.Contains(err.Error(), "raft says no") {
			t.Errorf("%v", err)
		}
	})
}

// TestEntriesGoAsManyAsFit checks that AppendEntries removes the entries that it did not send from the request,
// because raft takes those left in the request as sent.
func TestEntriesGoAsManyAsFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b")
		a, b := w.group("a"), w.group("b")
		for _, x := range []struct{ count, size, want int }{
			{64, 10, 64}, {64, 1 << 20, 3}, {2, transport.MaxAppend, 1}, {1, 24 << 20, 1},
		} {
			request := entriesOf(x.count, x.size)
			failed := make(chan error)
			go func() {
				failed <- a.AppendEntries("b", raft.ServerAddress(w.at["b"]), request, &raft.AppendEntriesResponse{})
			}()
			rpc := <-b.Consumer()
			got := rpc.Command.(*raft.AppendEntriesRequest)
			rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
			if err := <-failed; err != nil || len(got.Entries) != x.want || len(request.Entries) != x.want {
				t.Errorf("%+v: %d arrived, %d are said to, %v", x, len(got.Entries), len(request.Entries), err)
			}
		}
	})
}

// TestRequestsForABusyRaftAreBounded checks the bound of the requests that wait for raft.
func TestRequestsForABusyRaftAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b")
		a, _ := w.group("a"), w.group("b")
		failed := make(chan error, 100)
		go func() { failed <- vote(w, a, "a") }()
		synctest.Wait() // one request is being handed to raft; 64 may wait after it
		for range 69 {
			go func() { failed <- vote(w, a, "a") }()
		}
		synctest.Wait()
		for range 70 - 65 {
			if err := <-failed; !strings.Contains(err.Error(), "too many") {
				t.Errorf("%v", err)
			}
		}
		start := time.Now()
		for range 65 {
			if err := <-failed; err == nil || strings.Contains(err.Error(), "too many") {
				t.Errorf("%v", err)
			}
		}
		if took := time.Since(start); took != transport.RPCTimeout {
			t.Errorf("they waited for %v", took)
		}
	})
}

func TestAPipelineAnswersInOrder(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, net *memnet.Net) {
		w := newWorld(t, net, "a", "b")
		a, b := w.group("a"), w.group("b")
		p, err := a.AppendEntriesPipeline("b", raft.ServerAddress(w.at["b"]))
		if err != nil {
			t.Fatal(err)
		}
		const n = 200
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range uint64(n) {
				rpc := <-b.Consumer()
				if got := rpc.Command.(*raft.AppendEntriesRequest).PrevLogEntry; got != i {
					t.Errorf("request %d came as number %d", got, i)
				}
				rpc.Respond(&raft.AppendEntriesResponse{Success: true, LastLog: i}, nil)
			}
		})
		wg.Go(func() {
			for i := range uint64(n) {
				size := 10
				if i%10 == 0 {
					size = transport.MaxFrame + 1
				}
				request := entriesOf(1, size)
				request.PrevLogEntry = i
				if _, err := p.AppendEntries(request, &raft.AppendEntriesResponse{}); err != nil {
					t.Error(err)
				}
			}
		})
		for i := range uint64(n) {
			f := <-p.Consumer()
			if err := f.Error(); err != nil {
				t.Fatalf("future %d: %v", i, err)
			}
			if f.Response().LastLog != i || f.Request().PrevLogEntry != i || f.Start().IsZero() {
				t.Fatalf("future %d, begun at %v: %+v to %+v", i, f.Start(), f.Response(), f.Request())
			}
		}
		wg.Wait()
		_ = p.Close()
	})
}

func TestAPipelineIsBoundedAndClosable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memnet.New(), "a", "b")
		a, _ := w.group("a"), w.group("b")
		p, err := a.AppendEntriesPipeline("b", raft.ServerAddress(w.at["b"]))
		if err != nil {
			t.Fatal(err)
		}
		var futures []raft.AppendFuture
		blocked := make(chan error, 1)
		go func() {
			for {
				f, err := p.AppendEntries(entriesOf(1, 10), &raft.AppendEntriesResponse{})
				if err != nil {
					blocked <- err
					return
				}
				futures = append(futures, f)
			}
		}()
		synctest.Wait() // nobody reads b's Consumer, so b answers none
		start := time.Now()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-blocked; !errors.Is(err, raft.ErrPipelineShutdown) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if len(futures) != 4 {
			t.Errorf("%d were in flight, not 4", len(futures))
		}
		for _, f := range futures {
			if f.Error() == nil {
				t.Error("one was answered")
			}
		}
		if _, err := p.AppendEntries(entriesOf(1, 10), &raft.AppendEntriesResponse{}); err == nil {
			t.Error("a closed pipeline sends")
		}
	})
}

// TestASilentFollowerIsNoContact exists because raft counts each future as contact with the follower.
func TestASilentFollowerIsNoContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		w := newWorld(t, net, "a", "b")
		a, _ := w.group("a"), w.group("b")
		p, err := a.AppendEntriesPipeline("b", raft.ServerAddress(w.at["b"]))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		f, err := p.AppendEntries(entriesOf(1, 10), &raft.AppendEntriesResponse{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := f.Error(); err == nil || time.Since(start) != transport.RPCTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		select {
		case <-p.Consumer():
			t.Error("raft is told of contact")
		case <-time.After(time.Minute):
		}
		if _, err := p.AppendEntries(entriesOf(1, 10), &raft.AppendEntriesResponse{}); err == nil {
			t.Error("the pipeline goes on")
		}
	})
}

func TestABrokenPipelineSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		w := newWorld(t, net, "a", "b")
		a, _ := w.group("a"), w.group("b")
		p, err := a.AppendEntriesPipeline("b", raft.ServerAddress(w.at["b"]))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.AppendEntries(entriesOf(1, 10), &raft.AppendEntriesResponse{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		net.Break("a", "b")
		if f := <-p.Consumer(); f.Error() == nil || f.Response().Success {
			t.Errorf("%+v, %v", f.Response(), f.Error())
		}
	})
}
