package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/corvo/internal/loadgen"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestBench runs each load over each transport at a real node. It checks that every job was measured and no
// queue is left.
func TestBench(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	c := newClient(t, p.endpoint, adminKey(t, dir))
	env := []string{"CORVO_ENDPOINT=" + p.endpoint, "CORVO_API_KEY=" + adminKey(t, dir)}
	t.Run("loads", func(t *testing.T) {
		for _, transport := range []string{loadgen.HTTP, loadgen.Batch, loadgen.Stream} {
			for _, workload := range []string{loadgen.Enqueue, loadgen.Work, loadgen.Lifecycle, loadgen.Steady} {
				t.Run(transport+" "+workload, func(t *testing.T) {
					t.Parallel()
					args := []string{"--transport", transport, "--workload", workload, "--clients", "3", "--queues", "2"}
					least, most := int64(50), int64(50)
					if workload == loadgen.Steady {
						args = append(args, "--for", "1s", "--warmup", "0")
						least, most = 1, 1<<40
					} else {
						args = append(args, "--jobs", "50")
					}
					if transport != loadgen.HTTP {
						args = append(args, "--batch", "8")
					}
					if transport == loadgen.Stream {
						args = append(args, "--window", "2")
					}
					r := benchOnce(t, env, 0, args...)
					if r.Jobs < least || r.Jobs > most {
						t.Errorf("%d jobs, want %d to %d: %+v", r.Jobs, least, most, r)
					}
					if r.Loop != "closed" || r.Failed != 0 || r.Interrupted {
						t.Errorf("a %s loop, %d operations failed, interrupted %v", r.Loop, r.Failed, r.Interrupted)
					}
					if r.JobsPerSecond <= 0 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P50 {
						t.Errorf("%v jobs a second, latencies %+v", r.JobsPerSecond, r.Latency)
					}
					if lives := workload == loadgen.Lifecycle || workload == loadgen.Steady; (r.JobLatency != nil) != lives || lives && r.JobLatency.P50 <= 0 {
						t.Errorf("jobs took %v", r.JobLatency)
					}
				})
			}
		}
		t.Run("at a rate", func(t *testing.T) {
			t.Parallel()
			r := benchOnce(t, env, 0, "--workload", "lifecycle", "--rate", "100", "--for", "200ms", "--warmup", "50ms", "--max-failed", "1")
			got := loadgen.Report{Jobs: r.Jobs, Loop: r.Loop, Rate: r.Rate, WarmupMs: r.WarmupMs}
			if diff := cmp.Diff(loadgen.Report{Jobs: 20, Loop: "open", Rate: 100, WarmupMs: 50}, got); diff != "" {
				t.Errorf("measured (-want +got):\n%s", diff)
			}
		})
		t.Run("too large", func(t *testing.T) {
			t.Parallel()
			r := benchOnce(t, env, 1, "--payload", "1100000", "--jobs", "2", "--clients", "1", "--keep")
			got := loadgen.Report{Latency: r.Latency, QueuesKept: r.QueuesKept, Jobs: r.Jobs, Failed: r.Failed, FailedShare: r.FailedShare, Errors: r.Errors}
			want := loadgen.Report{Failed: 2, FailedShare: 1, Errors: []loadgen.ErrorCount{{Code: "PAYLOAD_TOO_LARGE", Count: 2}}}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(loadgen.ErrorCount{}, "Example")); diff != "" {
				t.Errorf("measured (-want +got):\n%s", diff)
			}
		})
	})
	interruptBench(t, c, env)
	queues, err := c.Queues(t.Context(), client.Read{Strong: true})
	if err != nil || len(queues) > 0 {
		t.Errorf("left are %v, %v", queues, err)
	}
	// The bench accepts credentials from the same sources as every command.
	kept := benchOnce(t, nil, 0, "--endpoint", p.endpoint, "--api-key-file", filepath.Join(dir, "admin.key"), "--jobs", "5", "--keep")
	if a := corvoFed(t, strings.NewReader(adminKey(t, dir)), nil, "bench", "--endpoint", p.endpoint, "--api-key-file", "-", "--jobs", "5"); a.code != 0 {
		t.Errorf("with a key from stdin it ended with %d: %s", a.code, a.stderr)
	}
	queues, err = c.Queues(t.Context(), client.Read{Strong: true})
	if err != nil || len(queues) != 1 || queues[0].Pending != 5 {
		t.Fatalf("kept are %+v, %v, want one queue with 5 pending jobs", queues, err)
	}
	if diff := cmp.Diff([]string{queues[0].Name}, kept.QueuesKept); diff != "" {
		t.Errorf("the queues of the report (-want +got):\n%s", diff)
	}
}

// TestBenchProgress checks that a bench shows its phases on a terminal's stderr and clears them before the
// report, and shows none of them in a pipe or with JSON.
func TestBenchProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	env := []string{"CORVO_ENDPOINT=" + p.endpoint, "CORVO_API_KEY=" + adminKey(t, dir)}
	run := inTerminal(t, 24, 100, env, "bench", "--clients", "1", "--rate", "20", "--for", "24h", "--warmup", "0")
	eventually(t, t.Context(), "the phase and the time left", func() bool {
		return regexp.MustCompile(`\r\[\.{30}\]   0%  measuring, \d+ s left\x1b\[K`).MatchString(run.all())
	})
	run.press(t, "\x03")
	<-run.ended
	_, report, cleared := strings.Cut(run.all(), "\r\x1b[KLOAD ")
	if !cleared || !strings.Contains(report, ", interrupted") || strings.Contains(report, "\x1b[K") {
		t.Errorf("it ends with %q", report)
	}

	shown, out := stderrOnTerminal(t, env, "bench", "--clients", "1", "--for", "1s", "--warmup", "0", "--output", "json")
	if shown != "" || readReport(t, out).Jobs == 0 {
		t.Errorf("with JSON into a pipe the terminal shows %q", shown)
	}
	if a := corvo(t, env, "bench", "--clients", "1", "--for", "1s", "--warmup", "0"); a.code != 0 || a.stderr != "" {
		t.Errorf("into a pipe stderr has %q", a.stderr)
	}
}

// benchOnce runs one load and checks its exit code.
func benchOnce(t *testing.T, env []string, code int, args ...string) loadgen.Report {
	t.Helper()
	a := corvo(t, env, append([]string{"bench", "--output", "json"}, args...)...)
	if a.code != code {
		t.Fatalf("%v ended with %d: %s%s", args, a.code, a.stdout, a.stderr)
	}
	return readReport(t, a.stdout)
}

func readReport(t *testing.T, text string) (r loadgen.Report) {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// interruptBench interrupts a load of a day, as Ctrl-C does, as soon as it has enqueued jobs.
func interruptBench(t *testing.T, c *client.Client, env []string) {
	t.Helper()
	cmd := exec.CommandContext(within(t), proctest.Build(t, "../..", "./cmd/corvo"), "bench", "--workload", "steady", "--for", "24h", "--warmup", "0", "--clients", "2", "--output", "json", "--payload", "999")
	cmd.Env = append(os.Environ(), env...)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, t.Context(), "a load that completes jobs", func() bool {
		queues, err := c.Queues(t.Context(), client.Read{})
		for _, q := range queues {
			if err == nil && q.Completed > 50 {
				return true
			}
		}
		return false
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("ended with %v: %s", err, out.String())
	}
	if r := readReport(t, out.String()); !r.Interrupted || r.Jobs < 50 || r.Failed != 0 {
		t.Errorf("measured %+v", r)
	}
}

// TestBenchIsRefused checks that bench refuses misuse and missing permissions before it creates anything.
func TestBenchIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	env := []string{"CORVO_ENDPOINT=" + p.endpoint, "CORVO_API_KEY=" + adminKey(t, dir)}
	for _, wrong := range []struct {
		says string
		code int
		args string
	}{
		{"--clients is 0", 2, "--clients 0"},
		{"--batch is 2", 2, "--batch 2"},
		{"--window is 2", 2, "--window 2"},
		{"give one of them", 2, "--for 1s --jobs 1"},
		{"needs --jobs", 2, "--workload work"},
		{"instead of --jobs", 2, "--workload steady --jobs 5"},
		{"--warmup goes with --for", 2, "--jobs 5 --warmup 1s"},
		{"--max-failed is 2", 2, "--max-failed 2"},
		{"--output is", 2, "--output xml"},
		{"UNAUTHORIZED", 1, "--api-key cv_wrong"},
		{"connection refused", 1, "--endpoint http://127.0.0.1:1"},
		{"want a URL", 2, "--endpoint nowhere"},
		{"--rate 0.5 begins no operation within --for 1s", 2, "--rate 0.5 --for 1s"},
		{"a smaller --batch", 2, "--transport batch --rate 10 --for 2s"},
	} {
		a := corvo(t, env, append([]string{"bench"}, strings.Fields(wrong.args)...)...)
		if a.code != wrong.code || !strings.Contains(a.stderr, wrong.says) || a.stdout != "" {
			t.Errorf("%s ended with %d: %s%s", wrong.args, a.code, a.stdout, a.stderr)
		}
	}
	queues, err := newClient(t, p.endpoint, adminKey(t, dir)).Queues(t.Context(), client.Read{Strong: true})
	if err != nil || len(queues) > 0 {
		t.Errorf("made were %v, %v", queues, err)
	}
}

// TestBenchReports checks the report for people and for programs.
func TestBenchReports(t *testing.T) {
	t.Parallel()
	steady := loadgen.Report{
		Endpoint: "http://127.0.0.1:8080", Transport: loadgen.Stream, Workload: loadgen.Steady, Loop: "open", Clients: 8, Window: 4, Rate: 2500.5, Batch: 64, PayloadBytes: 200, Queues: 2,
		WarmupMs: 1000, Interrupted: true, ElapsedMs: 10000.125, Jobs: 25000, JobsPerSecond: 2500, Operations: 400, Failed: 3, FailedShare: 0.0075,
		Errors:     []loadgen.ErrorCount{{Code: "OVERLOADED", Count: 2, Example: "OVERLOADED: try\tlater"}, {Code: loadgen.NotSent, Count: 1, Example: "the clients were busy"}},
		Latency:    &loadgen.Latency{Mean: 3.217, P50: 2.5, P90: 4.25, P99: 49.152, P999: 120.5, Max: 12345.678},
		JobLatency: &loadgen.Latency{Mean: 0.999, P50: 0.031, P90: 9.9994, P99: 99.995, P999: 999.95, Max: 123456},
		QueuesKept: []string{"bench.x.0", "bench.x.1"},
	}
	enqueue := loadgen.Report{
		Endpoint: "http://127.0.0.1:8080", Transport: loadgen.HTTP, Workload: loadgen.Enqueue, Loop: "closed", Clients: 1, Window: 1, Batch: 1, PayloadBytes: 200, Queues: 1,
		ElapsedMs: 321, Jobs: 1000, JobsPerSecond: 3115.3, Operations: 1000, Errors: []loadgen.ErrorCount{}, QueuesKept: []string{},
		Latency: &loadgen.Latency{Mean: 0.321, P50: 0.3, P90: 0.4, P99: 0.5, P999: 0.6, Max: 0.7},
	}
	refused := loadgen.Report{
		Endpoint: "http://127.0.0.1:8080", Transport: loadgen.HTTP, Workload: loadgen.Enqueue, Loop: "closed", Clients: 2, Window: 1, Batch: 1, PayloadBytes: 1100000, Queues: 1,
		ElapsedMs: 32, Operations: 2, Failed: 2, FailedShare: 1, Errors: []loadgen.ErrorCount{{Code: "PAYLOAD_TOO_LARGE", Count: 2, Example: "PAYLOAD_TOO_LARGE: the payload"}}, QueuesKept: []string{},
	}
	var got strings.Builder
	for _, r := range []loadgen.Report{enqueue, steady, refused} {
		table := tabwriter.NewWriter(&got, 0, 0, 2, ' ', 0)
		showReport(table, r)
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "\n%s\n\n", text)
	}
	path := filepath.Join("testdata", "bench.golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the report has changed; look at the difference and run with -rewrite:\n%s", got.String())
	}
}
