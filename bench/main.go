// Command bench measures Corvo beside what people use instead of it, and beside what
// the machine could do at best, in one run: rates of different machines or hours cannot
// be compared, ratios of one run can.
//
// It is a module of its own, so that the servers it compares with are no dependencies
// of Corvo's. It starts and stops them itself. Over the network Corvo is measured by
// the built binary, `corvo server` and `corvo bench`; the bare HTTP handler by the same
// client.
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

// row is what is measured; of several systems, if they can do it.
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

// outcome is what one measurement has found.
type outcome struct {
	rate     float64       // a second
	p50, p99 time.Duration // 0: not known
}

// measure does one measurement for a time.
type measure func(ctx context.Context, d time.Duration) (outcome, error)

// system is something that is measured.
type system struct {
	name string
	// open starts it and says what it can do. What it returns stops it.
	open func(ctx context.Context, dir string) (map[row]measure, func() error, error)
}

// errAbsent says that a system is not on this machine.
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
	rounds = flag.Int("rounds", 3, "how often everything is measured, in turn")
	each   = flag.Duration("for", 3*time.Second, "how long each measurement takes")
	only   = flag.String("only", "", "systems whose name begins with one of these, between commas")
	binary = flag.String("corvo", "../bin/corvo", "the binary of Corvo")
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
	defer all.print(os.Stdout) // also what there is, where it ends early
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
