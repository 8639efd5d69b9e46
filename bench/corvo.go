package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const corvoName = "Corvo"

var endpointPattern = regexp.MustCompile(`listens on (http://\S+?),`)

// openCorvo starts a node with the default durability.
func openCorvo(ctx context.Context, dir string) (map[row]measure, func() error, error) {
	server := exec.Command(*binary, "server", "--data-dir", dir, "--bind", "127.0.0.1:0", "--raft-bind", "off", "--log-level", "error")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := server.Start(); err != nil {
		return nil, nil, fmt.Errorf("%w; build it with make build", err)
	}
	lines := bufio.NewScanner(out)
	endpoint := ""
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "try: ") {
		if found := endpointPattern.FindStringSubmatch(lines.Text()); found != nil {
			endpoint = found[1]
		}
	}
	go func() {
		for lines.Scan() { // further output must not block the server
		}
	}()
	stop := func() error {
		_ = server.Process.Signal(syscall.SIGTERM)
		return server.Wait()
	}
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil || endpoint == "" {
		_ = stop()
		return nil, nil, fmt.Errorf("the node at %q has no key: %w", endpoint, err)
	}
	c := remote{endpoint, strings.TrimSpace(string(key))}
	return map[row]measure{
		enqueue1:     c.bench("http", "enqueue", 1),
		enqueue32:    c.bench("http", "enqueue", 32),
		enqueue128:   c.bench("http", "enqueue", 128),
		lifecycle128: c.bench("http", "lifecycle", 128),
		bulkEnqueue:  c.bench("stream", "enqueue", streams),
		work:         c.bench("stream", "work", streams),
		steady:       c.bench("stream", "steady", steadyStreams),
	}, stop, nil
}

// steadyStreams is the number of streams that keep window jobs under way: each holds the
// jobs of one frame, and enqueues as many with their acks.
const steadyStreams = window / (2 * atOnce)

// remote is a server with Corvo's API.
type remote struct{ endpoint, key string }

// bench runs `corvo bench`. For the steady state it returns the latency of jobs instead of
// operations. It keeps the queues, because removing a million jobs would disturb the next
// measurement.
func (r remote) bench(transport, workload string, clients int) measure {
	return func(ctx context.Context, d time.Duration) (outcome, error) {
		args := []string{
			"bench", "--keep", "--output", "json", "--transport", transport, "--workload", workload,
			"--clients", strconv.Itoa(clients), "--queues", strconv.Itoa(min(clients, 8)), "--payload", strconv.Itoa(payloadBytes),
		}
		if transport != "http" {
			args = append(args, "--batch", strconv.Itoa(atOnce))
		}
		if workload == "work" {
			args = append(args, "--jobs", strconv.Itoa(jobsFor(d)))
		} else {
			args = append(args, "--for", d.String(), "--warmup", "200ms")
		}
		cmd := exec.CommandContext(ctx, *binary, args...)
		cmd.Env = append(os.Environ(), "CORVO_ENDPOINT="+r.endpoint, "CORVO_API_KEY="+r.key)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return outcome{}, fmt.Errorf("corvo %s: %w: %s%s", strings.Join(args, " "), err, out, stderr.Bytes())
		}
		var report struct {
			JobsPerSecond float64    `json:"jobs_per_second"`
			Latency       quantiles  `json:"latency_ms"`
			JobLatency    *quantiles `json:"job_latency_ms"`
		}
		if err := json.Unmarshal(out, &report); err != nil {
			return outcome{}, err
		}
		q := report.Latency
		if workload == "steady" && report.JobLatency != nil {
			q = *report.JobLatency
		}
		return outcome{report.JobsPerSecond, q.P50.duration(), q.P99.duration()}, nil
	}
}

type quantiles struct {
	P50 milliseconds `json:"p50"`
	P99 milliseconds `json:"p99"`
}

type milliseconds float64

func (m milliseconds) duration() time.Duration {
	return time.Duration(float64(m) * float64(time.Millisecond))
}

// jobsFor returns the number of jobs to enqueue before a measurement of work.
func jobsFor(d time.Duration) int { return max(int(d.Seconds()*backlog), 10*atOnce*streams) }
