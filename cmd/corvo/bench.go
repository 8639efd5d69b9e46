package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/cmd/corvo/internal/loadgen"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// The defaults of a bench.
const (
	benchClients   = 32
	benchBatch     = 64
	benchPayload   = 200
	benchFor       = 10 * time.Second
	benchWarmup    = time.Second
	benchMaxFailed = 0.01
)

// bench is a run as the command line requests it.
type bench struct {
	remote
	loadgen.Config
	maxFailed float64
}

func newBench() *cobra.Command {
	b := &bench{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Generate load and measure rate and latency",
		Long: "Generate load on a node or through a gateway and measure rate and latency. The benchmark creates queues and\n" +
			"deletes them at the end. Without --rate, a client starts an operation when its last one has ended (closed loop).\n" +
			"With --rate, operations start on schedule, and latency counts from the scheduled start (open loop). The exit code\n" +
			"is 1 if more than --max-failed of the operations failed. Ctrl-C ends the run early and prints the results so far.",
		Args: cobra.NoArgs,
		RunE: b.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&b.Transport, "transport", loadgen.HTTP, "transport: http (a request for each job), batch (requests of --batch jobs) or stream (frames of --batch jobs)")
	flags.StringVar(&b.Workload, "workload", loadgen.Enqueue, "workload: enqueue, work (fetch and ack of --jobs prepared jobs), lifecycle (enqueue, fetch, ack in turn) or steady (all three at once)")
	flags.IntVar(&b.Clients, "clients", benchClients, "number of concurrent clients")
	flags.IntVar(&b.Window, "window", 1, "operations in flight for each client; more than 1 needs --transport stream")
	flags.Float64Var(&b.Rate, "rate", 0, "target rate of all clients in jobs a second; 0 for a closed loop")
	flags.IntVar(&b.Batch, "batch", 0, fmt.Sprintf("jobs in a request or frame (default %d; 1 with --transport http)", benchBatch))
	flags.IntVar(&b.Payload, "payload", benchPayload, "payload size in bytes")
	flags.IntVar(&b.Queues, "queues", 1, "number of queues that the clients share")
	flags.DurationVar(&b.For, "for", 0, fmt.Sprintf("measured time (default %v)", benchFor))
	flags.IntVar(&b.Jobs, "jobs", 0, "number of jobs to measure, instead of --for")
	flags.DurationVar(&b.Warmup, "warmup", 0, fmt.Sprintf("warm-up time before the measurement (default %v with --for)", benchWarmup))
	flags.Float64Var(&b.maxFailed, "max-failed", benchMaxFailed, "largest allowed share of failed operations, 0 to 1")
	flags.BoolVar(&b.Keep, "keep", false, "keep the queues and their jobs")
	b.bind(cmd)
	return cmd
}

func (b *bench) run(cmd *cobra.Command, _ []string) error {
	a, err := b.speaker()
	if err != nil {
		return err
	}
	c, err := a.client() // refuses an invalid endpoint
	if err != nil {
		return err
	}
	c.Close()
	b.Endpoint, b.Key, b.Namespace = a.endpoint, a.secret(), a.namespace
	b.fill(cmd)
	if err := b.Check(); err != nil {
		return misuse.Of(err)
	}
	if !(b.maxFailed >= 0 && b.maxFailed <= 1) {
		return misusef("--max-failed is %v; it must be 0 to 1", b.maxFailed)
	}
	stop, cancel := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(stop, cancel) // a second Ctrl-C cuts the end of the run short
	p := newProgress(cmd)
	if b.output == outputTable || forPerson() {
		b.Watch = func(at loadgen.Progress) { p.show(at.Done, at.Total, benchProgressText(at)) }
	}
	report, err := loadgen.Run(stop, b.Config)
	p.clear()
	if report.Endpoint == "" {
		return err
	}
	measured := report.Operations > 0 || len(report.QueuesKept) > 0
	if !measured && b.output == outputTable {
		return errors.Join(err, errors.New("nothing was measured"))
	}
	if told := tell(&b.remote, cmd, report, showReport); told != nil {
		return told
	}
	switch {
	case err != nil:
		return err
	case report.FailedShare > b.maxFailed:
		return fmt.Errorf("%s of the operations failed; --max-failed is %s", percent(report.FailedShare), percent(b.maxFailed))
	case report.Jobs == 0:
		return fmt.Errorf("nothing was measured")
	}
	return nil
}

// benchProgressText returns the run's phase and, if known, the seconds until that phase ends.
func benchProgressText(at loadgen.Progress) string {
	if at.Left <= 0 {
		return at.Phase
	}
	return fmt.Sprintf("%s, %.0f s left", at.Phase, math.Ceil(at.Left.Seconds()))
}

// fill sets the defaults that depend on other flags.
func (b *bench) fill(cmd *cobra.Command) {
	given := cmd.Flags().Changed
	if !given("batch") {
		b.Batch = benchBatch
		if b.Transport == loadgen.HTTP {
			b.Batch = 1
		}
	}
	if given("jobs") || b.Workload == loadgen.Work {
		return
	}
	if !given("for") {
		b.For = benchFor
	}
	if !given("warmup") {
		b.Warmup = benchWarmup
	}
}

func showReport(w io.Writer, r loadgen.Report) {
	showKnown(w, r,
		column[loadgen.Report]{"LOAD", loadText},
		column[loadgen.Report]{"LOOP", loopText},
		column[loadgen.Report]{"MEASURED", measuredText},
		column[loadgen.Report]{"JOBS", func(r loadgen.Report) string { return count(r.Jobs) }},
		column[loadgen.Report]{"JOBS/S", func(r loadgen.Report) string { return strconv.FormatFloat(r.JobsPerSecond, 'f', 0, 64) }},
		column[loadgen.Report]{"OPERATIONS", func(r loadgen.Report) string { return count(r.Operations) }},
		column[loadgen.Report]{"FAILED", failedText},
		column[loadgen.Report]{"KEPT", func(r loadgen.Report) string { return strings.Join(r.QueuesKept, ", ") }},
	)
	showLatency(w, r)
	if len(r.Errors) == 0 {
		return
	}
	fmt.Fprintln(w)
	showList(w, r.Errors, []column[loadgen.ErrorCount]{
		{"ERROR", func(e loadgen.ErrorCount) string { return e.Code }},
		{"COUNT", func(e loadgen.ErrorCount) string { return count(e.Count) }},
		{"EXAMPLE", func(e loadgen.ErrorCount) string { return e.Example }},
	})
}

// showLatency shows the latency of the successful calls, or nothing if no call succeeded.
func showLatency(w io.Writer, r loadgen.Report) {
	type line struct {
		what string
		loadgen.Latency
	}
	var all []line
	if r.Latency != nil {
		all = append(all, line{"operation", *r.Latency})
	}
	if r.JobLatency != nil {
		all = append(all, line{"job, enqueue to ack", *r.JobLatency})
	}
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	in := func(of func(loadgen.Latency) float64) func(line) string {
		return func(l line) string { return milliseconds(of(l.Latency)) }
	}
	showList(w, all, []column[line]{
		{"LATENCY", func(l line) string { return l.what }},
		{"MEAN", in(func(l loadgen.Latency) float64 { return l.Mean })},
		{"P50", in(func(l loadgen.Latency) float64 { return l.P50 })},
		{"P90", in(func(l loadgen.Latency) float64 { return l.P90 })},
		{"P99", in(func(l loadgen.Latency) float64 { return l.P99 })},
		{"P99.9", in(func(l loadgen.Latency) float64 { return l.P999 })},
		{"MAX", in(func(l loadgen.Latency) float64 { return l.Max })},
	})
}

func loadText(r loadgen.Report) string {
	text := fmt.Sprintf("%s over %s by %s, payloads of %d bytes", r.Workload, r.Transport, clientsText(r.Clients), r.PayloadBytes)
	if r.Transport != loadgen.HTTP {
		text += fmt.Sprintf(", %d jobs at once", r.Batch)
	}
	if r.Window > 1 {
		text += fmt.Sprintf(", %d frames of each under way", r.Window)
	}
	if r.Queues > 1 {
		text += fmt.Sprintf(", %d queues", r.Queues)
	}
	return text
}

func clientsText(n int) string {
	if n == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", n)
}

func loopText(r loadgen.Report) string {
	if r.Rate == 0 {
		return "closed: a client starts an operation when its last one has ended"
	}
	return fmt.Sprintf("open: %s jobs/s are started, latency counts from the scheduled start", strconv.FormatFloat(r.Rate, 'f', -1, 64))
}

func measuredText(r loadgen.Report) string {
	text := milliseconds(r.ElapsedMs)
	if r.WarmupMs > 0 {
		text += ", after " + milliseconds(r.WarmupMs) + " of warm-up"
	}
	if r.Interrupted {
		text += ", interrupted"
	}
	return text
}

func failedText(r loadgen.Report) string {
	if r.Failed == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", r.Failed, percent(r.FailedShare))
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + " %" }

// milliseconds formats a duration with at most four digits, which is precise enough for people.
func milliseconds(ms float64) string {
	d := time.Duration(math.Round(ms*1000)) * time.Microsecond
	for unit := time.Microsecond; ; unit *= 10 {
		if d < 10000*unit {
			return d.Round(unit).String()
		}
	}
}
