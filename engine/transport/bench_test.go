package transport_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// spent returns the processor time of this process.
func spent() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(b *testing.B, before time.Duration) {
	b.ReportMetric(float64((spent()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// answerAll serves a raft that accepts every request.
func answerAll(b *testing.B, t raft.Transport) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	answer := func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil) }
	t.SetHeartbeatHandler(answer)
	wg.Go(func() {
		for {
			select {
			case rpc := <-t.Consumer():
				answer(rpc)
			case <-stop:
				return
			}
		}
	})
	b.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
}

// tlsStream gives raft's own transport the same TLS.
type tlsStream struct {
	net.Listener
	identity transport.Identity
}

func (s tlsStream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c := s.identity.Client("")
	return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, "tcp", string(address), c)
}

// ends returns two processes' ends of groups, over this transport or raft's.
func ends(b *testing.B, kind string, groups int) (from []raft.Transport, target raft.ServerAddress, targets []raft.ServerAddress) {
	if kind == "ours" {
		w := newWorld(b, nil, "a", "b")
		for i := range groups {
			for _, id := range w.ids {
				g, err := w.node[id].Group(fmt.Sprint(i), incarnation)
				if err != nil {
					b.Fatal(err)
				}
				if id == "a" {
					from = append(from, g)
				} else {
					answerAll(b, g)
				}
			}
			targets = append(targets, raft.ServerAddress(w.at["b"]))
		}
		return from, targets[0], targets
	}
	ids := transporttest.Identities("a", "b")
	for range groups {
		for _, id := range []string{"a", "b"} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			t := raft.NewNetworkTransport(tlsStream{tls.NewListener(l, ids[id].Server()), ids[id]}, 3, 10*time.Second, io.Discard)
			b.Cleanup(func() {
				t.CloseStreams()
				_ = t.Close()
			})
			if id == "a" {
				from = append(from, t)
			} else {
				answerAll(b, t)
				targets = append(targets, t.LocalAddr())
			}
		}
	}
	return from, targets[0], targets
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		for _, kind := range []string{"ours", "raft's"} {
			b.Run(fmt.Sprintf("%d bytes/%s", size, kind), func(b *testing.B) {
				from, target, _ := ends(b, kind, 1)
				request, resp := entriesOf(1, size), &raft.AppendEntriesResponse{}
				request.PrevLogEntry = 1
				b.SetBytes(int64(size))
				before := spent()
				for b.Loop() {
					if err := from[0].AppendEntries("b", target, request, resp); err != nil {
						b.Fatal(err)
					}
				}
				report(b, before)
			})
		}
	}
}

func BenchmarkPipeline(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 256 << 10} {
		for _, kind := range []string{"ours", "raft's"} {
			b.Run(fmt.Sprintf("%d bytes/%s", size, kind), func(b *testing.B) {
				from, target, _ := ends(b, kind, 1)
				p, err := from[0].AppendEntriesPipeline("b", target)
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				request := entriesOf(1, size)
				request.PrevLogEntry = 1
				b.SetBytes(int64(size))
				before := spent()
				b.ResetTimer()
				go func() {
					for range b.N {
						if _, err := p.AppendEntries(request, &raft.AppendEntriesResponse{}); err != nil {
							b.Error(err)
							return
						}
					}
				}()
				for range b.N {
					if f := <-p.Consumer(); f.Error() != nil {
						b.Fatal(f.Error())
					}
				}
				report(b, before)
			})
		}
	}
}

// BenchmarkHeartbeatsOf100Groups measures one simultaneous heartbeat of each of a hundred groups.
func BenchmarkHeartbeatsOf100Groups(b *testing.B) {
	for _, kind := range []string{"ours", "raft's"} {
		b.Run(kind, func(b *testing.B) {
			from, _, targets := ends(b, kind, 100)
			round := func() {
				var wg sync.WaitGroup
				for i, g := range from {
					wg.Go(func() {
						err := g.AppendEntries("b", targets[i], &raft.AppendEntriesRequest{
							RPCHeader: raft.RPCHeader{ID: []byte("a"), Addr: []byte("a")}, Term: 1,
						}, &raft.AppendEntriesResponse{})
						if err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
			round() // opens the connections
			before := spent()
			for b.Loop() {
				round()
			}
			report(b, before)
		})
	}
}

// BenchmarkHundredGroups measures a second of three processes with a hundred groups each. Each process leads
// a third of them and sends heartbeats ten times a second.
func BenchmarkHundredGroups(b *testing.B) {
	w := newWorld(b, nil, "a", "b", "c")
	groups := map[string][]*transport.Group{}
	for i := range 100 {
		for _, id := range w.ids {
			g, err := w.node[id].Group(fmt.Sprint(i), incarnation)
			if err != nil {
				b.Fatal(err)
			}
			groups[id] = append(groups[id], g)
			answerAll(b, g)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 100 {
		leader := w.ids[i%3]
		for _, to := range others(leader) {
			wg.Go(func() {
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
					case <-ctx.Done():
						return
					}
					err := groups[leader][i].AppendEntries(raft.ServerID(to), raft.ServerAddress(w.at[to]), &raft.AppendEntriesRequest{
						RPCHeader: raft.RPCHeader{ID: []byte(leader), Addr: []byte(leader)}, Term: 1,
					}, &raft.AppendEntriesResponse{})
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
	}
	time.Sleep(time.Second) // opens the connections
	before := spent()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	b.ReportMetric(float64((spent()-before).Milliseconds())/float64(b.N), "cpu-ms/s")
	cancel()
	wg.Wait()
}

func BenchmarkCall(b *testing.B) {
	w := newWorld(b, nil, "a", "b")
	w.node["b"].Handle(ask, echo)
	request := make([]byte, 1000)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := w.node["a"].Call(context.Background(), w.to("b"), ask, request); err != nil {
				b.Fatal(err)
			}
		}
	})
}
