// Package loadgen makes load on a Corvo node or gateway and measures how the server bears it. The package
// owns the clients, their pace, their counts and the report; the command prints the report. It reaches the
// server only through the Go SDK, so that it measures the same as users get.
//
// While they work, clients share only atomic counters, such as the number of the next operation at a fixed
// rate. Each client has its own connection state, and each caller of its window has its own payloads, counts
// and histograms. The report merges those when all clients have ended.
package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corvo/corvo/api/client"
)

// The ways that clients speak to the server.
const (
	HTTP   = "http"   // a request for each job
	Batch  = "batch"  // requests that name several jobs
	Stream = "stream" // frames of StreamLifecycle
)

// The workloads of clients.
const (
	Enqueue   = "enqueue"   // enqueue
	Work      = "work"      // fetch and ack jobs that were there before
	Lifecycle = "lifecycle" // enqueue, fetch and ack in turn
	Steady    = "steady"    // enqueue, fetch and ack together
)

// Bounds of a run. Check refuses a value beyond its bound and says how to correct it.
const (
	MaxClients = 4096
	MaxBatch   = 512 // the most jobs that one fetch returns
	MaxWindow  = 16  // the most frames of one stream that a server processes at once
	MaxQueues  = 1024
	MaxPayload = 16 << 20 // the most that a server can be configured to accept
	MaxRate    = 10_000_000
	MaxFor     = 24 * time.Hour
	MaxJobs    = 1_000_000_000

	// drainFor is how long after its last operation's time a fixed rate may still begin overdue operations.
	// Those not begun by then count as failed, with the code NotSent.
	drainFor = 10 * time.Second
	// grace is how long operations under way may take after an interrupt.
	grace = 5 * time.Second
	// pauseAfterError keeps the clients of a closed loop from asking a server that is down as fast as they
	// can.
	pauseAfterError = 10 * time.Millisecond
	mostPause       = time.Second // limit on the pause that the server asks for
)

// Config describes one run.
type Config struct {
	Endpoint  string
	Key       string
	Namespace string // the namespace to use if Key is a cloud token

	Transport string
	Workload  string
	Clients   int
	Window    int     // operations that each client has under way
	Rate      float64 // jobs a second that all clients begin together; 0 = each begins an operation when its last one is answered
	Batch     int     // jobs of a request or frame
	Payload   int     // bytes
	Queues    int     // over which the clients are spread

	For    time.Duration // 0 = until Jobs are done
	Warmup time.Duration // before For, not measured
	Jobs   int           // 0 = until For is over; for Work the size of the backlog; not for Steady

	Keep bool // leave the queues and their jobs

	Watch func(Progress) // called by one goroutine at a time while the run goes on; may be nil
}

// Check returns everything that is wrong with a run.
func (c Config) Check() error {
	var all []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Transport != HTTP && c.Transport != Batch && c.Transport != Stream, "--transport is %q; it must be %s, %s or %s", c.Transport, HTTP, Batch, Stream)
	refuse(c.Workload != Enqueue && c.Workload != Work && c.Workload != Lifecycle && c.Workload != Steady,
		"--workload is %q; it must be %s, %s, %s or %s", c.Workload, Enqueue, Work, Lifecycle, Steady)
	refuse(c.Clients < 1 || c.Clients > MaxClients, "--clients is %d; it must be 1 to %d", c.Clients, MaxClients)
	refuse(c.Batch < 1 || c.Batch > MaxBatch, "--batch is %d; it must be 1 to %d", c.Batch, MaxBatch)
	refuse(c.Transport == HTTP && c.Batch > 1, "--batch is %d, but --transport %s sends a request for each job; use %s or %s", c.Batch, HTTP, Batch, Stream)
	refuse(c.Window < 1 || c.Window > MaxWindow, "--window is %d; it must be 1 to %d", c.Window, MaxWindow)
	refuse(c.Window > 1 && c.Transport != Stream, "--window is %d, but a request has a connection to itself; use --transport %s, or more --clients", c.Window, Stream)
	refuse(c.Queues < 1 || c.Queues > MaxQueues, "--queues is %d; it must be 1 to %d", c.Queues, MaxQueues)
	refuse(c.Clients > 0 && c.Queues > c.Clients, "--queues is %d, but only %d clients are there to use them, each of which uses one", c.Queues, c.Clients)
	refuse(c.Payload < MinPayload || c.Payload > MaxPayload, "--payload is %d; it must be %d to %d bytes, because it carries the time of its enqueue", c.Payload, MinPayload, MaxPayload)
	refuse(!(c.Rate >= 0 && c.Rate <= MaxRate), "--rate is %v; it must be 0 (closed loop) to %d jobs a second", c.Rate, MaxRate)
	refuse(c.Jobs < 0 || c.Jobs > MaxJobs, "--jobs is %d; it must be 1 to %d", c.Jobs, MaxJobs)
	refuse(c.For < 0 || c.For > MaxFor, "--for is %v; it must be above 0 and at most %v", c.For, MaxFor)
	refuse(c.Warmup < 0 || c.Warmup > MaxFor, "--warmup is %v; it must be 0 to %v", c.Warmup, MaxFor)
	switch {
	case c.Workload == Work:
		refuse(c.Jobs == 0, "--workload %s needs --jobs: how many are there before it begins", Work)
		refuse(c.For > 0, "--workload %s ends when its jobs are done; leave --for out", Work)
	case c.Workload == Steady:
		refuse(c.Jobs > 0, "--workload %s has no last job; give --for instead of --jobs", Steady)
		refuse(c.Jobs == 0 && c.For == 0, "say when the run ends: --for")
	case c.Jobs > 0 && c.For > 0:
		refuse(true, "--for and --jobs both say when the run ends; give one of them")
	default:
		refuse(c.Jobs == 0 && c.For == 0, "say when the run ends: --for or --jobs")
	}
	refuse(c.Warmup > 0 && c.Jobs > 0 && c.Workload != Steady, "--warmup goes with --for: of a number of jobs all are measured")
	if len(all) == 0 && c.Rate > 0 && c.For > 0 {
		p := newPace(c, time.Time{})
		refuse(p.at(p.operations()-1).Before(p.from), "--rate %v begins no operation within --for %v: give a longer --for, a higher --rate or a smaller --batch", c.Rate, c.For)
	}
	return errors.Join(all...)
}

// run is the state of a run under way.
type run struct {
	Config
	api      *client.Client
	queues   []string
	made     int       // the first queues, which the run may have created
	backlogs []backlog // by queue
	base     time.Time // base of the times in payloads
	pace     *pace
}

// Run makes the load until its end or until stop is done, and reports the measurements up to then. If only
// the removal of the queues fails, the report is complete beside the error.
func Run(stop context.Context, cfg Config) (Report, error) {
	if err := cfg.Check(); err != nil {
		return Report{}, err
	}
	web := webClient(cfg.Clients)
	defer web.CloseIdleConnections()
	options := []client.Option{client.WithRetries(0), client.WithHTTPClient(web)}
	if cfg.Namespace != "" {
		options = append(options, client.WithNamespace(cfg.Namespace))
	}
	c, err := client.New(cfg.Endpoint, cfg.Key, options...)
	if err != nil {
		return Report{}, err
	}
	r := &run{Config: cfg, api: c, queues: queueNames(cfg.Queues), base: time.Now()}
	prepared := r.watch(endless(Preparing))
	err = r.prepare(stop)
	prepared()
	var report Report
	if err == nil {
		report = r.measure(stop)
	}
	removed := r.watch(endless(Removing))
	defer removed()
	return report, errors.Join(err, r.remove())
}

// measure runs the clients and builds the report.
func (r *run) measure(stop context.Context) Report {
	ctx, cancel := context.WithCancel(context.WithoutCancel(stop))
	defer cancel()
	undo := context.AfterFunc(stop, func() { time.AfterFunc(grace, cancel) })
	defer undo()
	r.pace = newPace(r.Config, time.Now())
	defer r.watch(r.progress)()
	var all []*caller
	var running sync.WaitGroup
	for i := range r.Clients {
		conn := r.dial(fmt.Sprintf("bench-%d", i))
		defer conn.close()
		queue := i % len(r.queues)
		for range r.Window {
			c := &caller{run: r, queue: r.queues[queue], left: &r.backlogs[queue], conn: conn, payloads: newPayloads(r.Payload, uint64(len(all)))}
			all = append(all, c)
			running.Go(func() { c.work(ctx, stop) })
		}
	}
	running.Wait()
	return r.report(all, stop.Err() != nil)
}
