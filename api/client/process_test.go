//go:build unix

package client_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// workerProcess is set if the test binary must run as a worker process.
const workerProcess = "CORVO_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerProcess) != "" {
		os.Exit(processMain())
	}
	os.Exit(m.Run())
}

// processMain is a worker that takes a job and never completes it.
func processMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w, err := client.WorkerFromEnv()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	w.DrainTimeout, w.Lease = -1, 3*time.Second
	w.Handle("*", func(ctx context.Context, j *client.Job) error {
		j.SetCheckpoint(fmt.Sprint("attempt ", j.Attempt))
		if err := j.Save(ctx); err != nil {
			return err
		}
		fmt.Println("began")
		<-ctx.Done()
		return ctx.Err()
	})
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A terminated worker process returns its job; a killed one loses it when its lease expires. Another
// worker continues from the checkpoint.
func TestWorkerProcess(t *testing.T) {
	t.Parallel()
	c, url, stopNode := openNode()
	defer stopNode()
	made, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: "q", RetryBackoff: "none"})
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		signal  syscall.Signal
		exits   int // exit code; -1 = killed by the signal
		attempt int // attempts counted
	}{{syscall.SIGTERM, 0, 0}, {syscall.SIGKILL, -1, 1}} {
		worker := exec.Command(os.Args[0])
		worker.Env = append(os.Environ(), workerProcess+"=1", "CORVO_URL="+url, "CORVO_ENDPOINT=", "CORVO_QUEUES=q", "CORVO_CONCURRENCY=1")
		out, err := worker.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		worker.Stderr = os.Stderr
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewScanner(out)
		if !said.Scan() || said.Text() != "began" {
			t.Fatalf("the worker says %q", said.Text())
		}
		if err := worker.Process.Signal(end.signal); err != nil {
			t.Fatal(err)
		}
		_ = worker.Wait() // the exit code is checked below
		if code := worker.ProcessState.ExitCode(); code != end.exits {
			t.Errorf("after %v it exits with %d, want %d", end.signal, code, end.exits)
		}
		for {
			j, err := c.Job(t.Context(), made.JobID, client.Read{})
			if err != nil {
				t.Fatal(err)
			}
			if j.State == "pending" || j.State == "retrying" {
				if j.Attempt != end.attempt || string(j.Checkpoint) != `"attempt 1"` {
					t.Errorf("after %v attempt %d, checkpoint %s", end.signal, j.Attempt, j.Checkpoint)
				}
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}
