// Command bench compares Corvo with other job queues and with the machine's limits, in
// one run, because rates of different machines or hours cannot be compared, but ratios
// of one run can.
//
// It is a separate module, so that the other servers are not dependencies of Corvo. It
// starts and stops them itself. Over the network it measures Corvo by the built binary,
// with `corvo server` and `corvo bench`, and the bare HTTP handler by the same client.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// row is a workload, measured on every system that supports it.
type row string

const (
	sync4KiB     row = "sync of 4 KiB"
	enqueue1     row = "enqueue, 1 client"
	enqueue32    row = "enqueue, 32 clients"
	enqueue128   row = "enqueue, 128 clients"
	lifecycle128 row = "enqueue, fetch, ack in turn, 128 clients"
	bulkEnqueue  row = "enqueue, 64 at once"
	work         row = "fetch and ack, 64 at once"
	steady       row = "enqueue, fetch and ack together, 64 at once"
	inProcess512 row = "lifecycle in process, 512 callers"
)

var rows = []row{sync4KiB, enqueue1, enqueue32, enqueue128, lifecycle128, bulkEnqueue, work, steady, inProcess512}

// outcome is the result of one measurement.
type outcome struct {
	rate     float64       // jobs per second
	p50, p99 time.Duration // 0: unknown
}

// measure runs one measurement of a duration.
type measure func(ctx context.Context, d time.Duration) (outcome, error)

// system is a job queue or a reference.
type system struct {
	name string
	// open starts the system and returns its measurements and a function that stops it.
	open func(ctx context.Context, dir string) (map[row]measure, func() error, error)
}

// errAbsent means that a system is not installed on this machine.
var errAbsent = errors.New("left out")

var systems = []system{
	{corvoName, openCorvo},
	{corvoInside, openInside},
	{bareRaft, openRaft},
	{disk, openDisk},
	{bareHandler, openHandler},
	{natsFast, openNATS(false)},
	{natsSafe, openNATS(true)},
	{asynqFast, openAsynq("everysec")},
	{asynqSafe, openAsynq("always")},
	{riverName, openRiver},
}

var (
	rounds = flag.Int("rounds", 3, "rounds of all measurements")
	each   = flag.Duration("for", 3*time.Second, "duration of each measurement")
	only   = flag.String("only", "", "measure only systems whose name begins with one of these, comma separated")
	binary = flag.String("corvo", "../bin/corvo", "path of the corvo binary")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run opens all systems, measures them round after round and prints the tables.
func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "corvo-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	opened := map[string]map[row]measure{}
	for _, s := range systems {
		if !chosen(s.name) {
			continue
		}
		measures, closeIt, err := s.open(ctx, fmt.Sprintf("%s/%d", dir, len(opened)))
		if errors.Is(err, errAbsent) {
			fmt.Printf("%s: %v\n", s.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		defer func() { err = errors.Join(err, closeIt()) }()
		opened[s.name] = measures
	}
	all := results{}
	defer all.print(os.Stdout) // the results so far, even after an error
	for round := range *rounds {
		for _, r := range rows {
			for _, s := range systems {
				if err := measureOne(ctx, all, opened[s.name], s.name, r); err != nil {
					return err
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d is done\n", round+1, *rounds)
	}
	return nil
}

func measureOne(ctx context.Context, all results, measures map[row]measure, name string, r row) error {
	m := measures[r]
	if m == nil {
		return nil
	}
	o, err := m(ctx, *each)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", name, r, err)
	}
	fmt.Fprintf(os.Stderr, "%-28s %-46s %10.0f/s %12v %12v\n", name, r, o.rate, o.p50, o.p99)
	all.add(name, r, o)
	return ctx.Err()
}

func chosen(name string) bool {
	return *only == "" || slices.ContainsFunc(strings.Split(*only, ","), func(start string) bool {
		return strings.HasPrefix(strings.ToLower(name), strings.ToLower(strings.TrimSpace(start)))
	})
}
