package loadgen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api/client"
)

// pipes is a listener in memory, so that a synctest bubble can wait for its connections.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The stalling server takes ten milliseconds for a request, and once answers nothing for two seconds.
const (
	serves  = 10 * time.Millisecond
	stallAt = 5 * time.Second
	stalls  = 2 * time.Second
)

// measureStalling measures the stalling server over HTTP.
func measureStalling(t *testing.T, cfg Config) Report {
	t.Helper()
	begin := time.Now()
	listener := newPipes()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		time.Sleep(serves)
		if at := time.Since(begin); at > stallAt && at < stallAt+stalls {
			time.Sleep(stallAt + stalls - at)
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"job_id":"job_1","status":"pending"}`)
	})}
	go srv.Serve(listener)
	defer srv.Close()
	web := webClient(cfg.Clients)
	web.Transport.(*http.Transport).DialContext = listener.dial
	defer web.CloseIdleConnections()
	c, err := client.New("http://stalling", "", client.WithRetries(0), client.WithHTTPClient(web))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Transport, cfg.Workload, cfg.Batch, cfg.Payload, cfg.Queues, cfg.Window = HTTP, Enqueue, 1, 100, 1, 1
	r := &run{Config: cfg, api: c, queues: []string{"q"}, backlogs: make([]backlog, 1), base: begin}
	return r.measure(t.Context())
}

// near reports whether a latency in milliseconds is the expected one, as far as buckets and the order of
// goroutines at one instant allow.
func near(got float64, want time.Duration) bool {
	return got >= ms(want)*0.98 && got <= ms(want)*1.02+2
}

// At a fixed rate, a sixth of the operations have their times in a stall of two seconds in twelve, and the
// later ones wait less. A closed loop sends only ten operations meanwhile and takes the stall for an outlier.
func TestLatencyCountsFromTheIntendedStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := measureStalling(t, Config{Clients: 200, Rate: 100, For: 12 * time.Second})
		got := Report{Loop: r.Loop, Jobs: r.Jobs, Operations: r.Operations, Failed: r.Failed}
		if diff := cmp.Diff(Report{Loop: "open", Jobs: 1200, Operations: 1200}, got); diff != "" {
			t.Errorf("measured (-want +got):\n%s", diff)
		}
		// The slowest 200 are spread evenly over the stall.
		for _, q := range []struct {
			name string
			got  float64
			want time.Duration
		}{
			{"p50", r.Latency.P50, serves},
			{"p90", r.Latency.P90, stalls * 80 / 200},
			{"p99", r.Latency.P99, stalls * 188 / 200},
			{"max", r.Latency.Max, stalls},
		} {
			if !near(q.got, q.want) {
				t.Errorf("%s is %v ms, want %v", q.name, q.got, q.want)
			}
		}
		if got, want := r.JobsPerSecond, 100.0; got < want*0.99 || got > want*1.01 {
			t.Errorf("%v jobs/s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := measureStalling(t, Config{Clients: 10, For: 12 * time.Second})
		if r.Loop != "closed" || r.Jobs < 9_000 {
			t.Errorf("%d jobs in a %s loop", r.Jobs, r.Loop)
		}
		if !near(r.Latency.P99, serves) || !near(r.Latency.Max, stalls) {
			t.Errorf("measured %+v", r.Latency)
		}
	})
}

// The report counts operations as failed that never began because the clients did not reach the rate.
func TestWhatWasNotSentHasFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := measureStalling(t, Config{Clients: 1, Rate: 500, For: 4 * time.Second}) // one client can do 100 a second, of 2,000 in all
		if r.Jobs+r.Failed != 2000 || r.Failed < 500 {
			t.Errorf("%d jobs, %d failed; want 2000 together", r.Jobs, r.Failed)
		}
		want := []ErrorCount{{Code: NotSent, Count: r.Failed}}
		if diff := cmp.Diff(want, r.Errors, cmpopts.IgnoreFields(ErrorCount{}, "Example")); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
		if r.Latency.Max < ms(9*time.Second) {
			t.Errorf("the last waited %v ms", r.Latency.Max)
		}
	})
}

// Operations that begin in the warm-up are not measured.
func TestWarmUpIsNotMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := measureStalling(t, Config{Clients: 50, Rate: 100, Warmup: stallAt + stalls + time.Second, For: time.Second})
		if r.Jobs != 100 || !near(r.Latency.Max, serves) {
			t.Errorf("%d jobs with %+v", r.Jobs, r.Latency)
		}
		if r.ElapsedMs < 980 || r.ElapsedMs > 1020 {
			t.Errorf("took %v ms, want about 1000", r.ElapsedMs)
		}
	})
}

// A run reports its phases in order, each with the time left.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   Config
		total uint64 // of Measuring
	}{
		"for a time": {Config{Clients: 2, Warmup: 2 * time.Second, For: 4 * time.Second}, 4000},
		"at a rate":  {Config{Clients: 50, Rate: 100, Warmup: 2 * time.Second, For: 4 * time.Second}, 4000},
		"of jobs":    {Config{Clients: 2, Jobs: 1000}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all []Progress
				c.cfg.Watch = func(p Progress) { all = append(all, p) }
				measureStalling(t, c.cfg)
				last := all[len(all)-1]
				if last != (Progress{Phase: Measuring, Done: c.total, Total: c.total}) {
					t.Errorf("at the end it tells %+v", last)
				}
				for i, p := range all[:len(all)-1] {
					warm := time.Duration(i+1)*watchEvery < c.cfg.Warmup
					if warm != (p.Phase == WarmingUp) || p.Done > p.Total || i > 0 && all[i-1].Phase == p.Phase && p.Done < all[i-1].Done {
						t.Fatalf("look %d tells %+v after %+v", i, p, all[max(i-1, 0)])
					}
					if of := time.Duration(p.Total-p.Done) * time.Millisecond; c.cfg.Jobs == 0 && p.Left != of {
						t.Fatalf("look %d tells %v left of %+v", i, p.Left, p)
					}
					if c.cfg.Jobs > 0 && ((p.Left <= 0) != (p.Done == p.Total) || p.Left > 7*time.Second) {
						t.Fatalf("look %d estimates %v left of 1,000 jobs, which take 5 seconds and a stall", i, p.Left)
					}
				}
			})
		})
	}
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	for _, size := range []int{MinPayload, 200, letterPool + 1000} {
		p := newPayloads(size, 1)
		for _, want := range []time.Duration{0, 1, 12345 * time.Second, 1<<63 - 1} {
			got := p.next(nil, want)
			if len(got) != size {
				t.Errorf("%d bytes, want %d", len(got), size)
			}
			if at, ok := enqueuedAt(got); !ok || at != want {
				t.Errorf("%.60s carries %v, want %v", got, at, want)
			}
		}
	}
	if p := newPayloads(200, 1); slices.Equal(p.next(nil, 0), p.next(nil, 0)) {
		t.Error("two payloads are the same")
	}
	for _, other := range []string{"", "{}", `{"at":"`, `{"at":"soon, and no number"}`} {
		if at, ok := enqueuedAt([]byte(other)); ok {
			t.Errorf("%s carries %v", other, at)
		}
	}
}

// Clients that take jobs at the same time get each job of the backlog once.
func TestBacklogIsTakenOnce(t *testing.T) {
	t.Parallel()
	var b backlog
	b.give(1000)
	var running sync.WaitGroup
	taken := make([]int, 8)
	for i := range taken {
		running.Go(func() {
			for empty := 0; empty < 3; {
				n := b.take(7)
				if n == 0 {
					empty++
				}
				if n > 5 {
					b.give(2)
					n -= 2
				}
				taken[i] += n
			}
		})
	}
	running.Wait()
	all := b.take(1000)
	for _, n := range taken {
		all += n
	}
	if all != 1000 || b.take(1) != 0 {
		t.Errorf("%d taken of 1000", all)
	}
}

// Check refuses a value beyond each bound with a message that names the flag.
func TestCheck(t *testing.T) {
	t.Parallel()
	good := Config{Transport: Stream, Workload: Enqueue, Clients: MaxClients, Window: MaxWindow, Batch: MaxBatch, Payload: MaxPayload, Queues: MaxQueues, Rate: MaxRate, For: MaxFor, Warmup: MaxFor}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	least := Config{Transport: HTTP, Workload: Work, Clients: 1, Window: 1, Batch: 1, Payload: MinPayload, Queues: 1, Jobs: MaxJobs}
	if err := least.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(c *Config){
		"--transport":               func(c *Config) { c.Transport, c.Window = "smoke", 1 },
		"--workload":                func(c *Config) { c.Workload = "rest" },
		"--clients":                 func(c *Config) { c.Clients = MaxClients + 1 },
		"--clients is 0":            func(c *Config) { c.Clients = 0 },
		"--batch":                   func(c *Config) { c.Batch = MaxBatch + 1 },
		"--batch is 0":              func(c *Config) { c.Batch = 0 },
		"--window is 17":            func(c *Config) { c.Window = MaxWindow + 1 },
		"--window is 0":             func(c *Config) { c.Window = 0 },
		"more --clients":            func(c *Config) { c.Transport = Batch },
		"a request for each job":    func(c *Config) { c.Transport, c.Window = HTTP, 1 },
		"--queues":                  func(c *Config) { c.Queues = MaxQueues + 1 },
		"only 3 clients":            func(c *Config) { c.Clients = 3 },
		"--payload":                 func(c *Config) { c.Payload = MaxPayload + 1 },
		"--payload is 36":           func(c *Config) { c.Payload = MinPayload - 1 },
		"--rate":                    func(c *Config) { c.Rate = MaxRate + 1 },
		"--rate is -1":              func(c *Config) { c.Rate = -1 },
		"--jobs":                    func(c *Config) { c.Jobs, c.For, c.Warmup = MaxJobs+1, 0, 0 },
		"--for is":                  func(c *Config) { c.For = MaxFor + 1 },
		"--warmup is":               func(c *Config) { c.Warmup = -1 },
		"--warmup goes with --for":  func(c *Config) { c.Jobs, c.For = 1, 0 },
		"give one of them":          func(c *Config) { c.Jobs, c.Warmup = 1, 0 },
		"--for or --jobs":           func(c *Config) { c.For = 0 },
		"needs --jobs":              func(c *Config) { c.Workload, c.For = Work, 0 },
		"instead of --jobs":         func(c *Config) { c.Workload, c.Jobs, c.For = Steady, 1, 0 },
		"leave --for out":           func(c *Config) { c.Workload, c.Jobs, c.Warmup = Work, 1, 0 },
		"--queues is 0; it must be": func(c *Config) { c.Queues = 0 },
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := (Config{}).Check(); err == nil || strings.Count(err.Error(), "\n") < 4 {
		t.Errorf("of everything wrong, only this is told: %v", err)
	}
}

func TestCodes(t *testing.T) {
	t.Parallel()
	var f failures
	f.add(errors.New("connection reset"))
	f.add(context.DeadlineExceeded)
	f.add(context.DeadlineExceeded)
	other := failures{}
	other.addN("OVERLOADED", 2, "first")
	f.merge(other)
	f.merge(other)
	got := []string{}
	for _, e := range f.sorted() {
		got = append(got, e.Code)
	}
	if !slices.Equal(got, []string{"OVERLOADED", TimedOut, NetworkError}) || f["OVERLOADED"].Count != 4 {
		t.Errorf("%v", got)
	}
}

// An interrupt while a queue is created leaves no queue behind.
func TestInterruptedWhileQueuesAreMade(t *testing.T) {
	t.Parallel()
	stop, interrupt := context.WithCancel(t.Context())
	var queues sync.Map
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPut:
			interrupt()
			queues.Store(r.URL.Path, true)
			io.WriteString(w, `{"name":"q"}`)
		case http.MethodDelete:
			queues.Delete(r.URL.Path)
			io.WriteString(w, `{"status":"deleted"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"code":"NOT_FOUND","error":"there is no such queue"}`)
		}
	}))
	defer srv.Close()
	_, err := Run(stop, Config{
		Endpoint: srv.URL, Transport: HTTP, Workload: Enqueue, Clients: 2, Queues: 2, Window: 1, Batch: 1, Payload: 100, For: time.Hour,
	})
	if err != nil {
		t.Error(err)
	}
	queues.Range(func(queue, _ any) bool {
		t.Errorf("%v is left", queue)
		return true
	})
}
