package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"syscall"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane"
)

// startNode starts a node for an example.
func startNode() (c *client.Client, stop func()) {
	c, _, stop = openNode()
	return c, stop
}

func openNode() (c *client.Client, url string, stop func()) {
	dir, err := os.MkdirTemp("", "corvo-example")
	if err != nil {
		log.Fatal(err)
	}
	n, err := dataplane.Open(context.Background(), dataplane.Config{DataDir: dir, NodeID: "n1", Dev: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	front := httptest.NewUnstartedServer(n.Handler())
	front.Config.Protocols = new(http.Protocols)
	front.Config.Protocols.SetHTTP1(true)
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	front.Start()
	if c, err = client.New(front.URL, ""); err != nil {
		log.Fatal(err)
	}
	return c, front.URL, func() {
		c.Close()
		n.Drain()
		front.Close()
		if err := errors.Join(n.Close(context.Background()), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}

// A producer enqueues a job, and a worker runs it.
func Example() {
	c, stopNode := startNode()
	defer stopNode()
	ctx, cancel := context.WithCancel(context.Background())

	_, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "emails", Payload: json.RawMessage(`{"to":"ada@example.com"}`)})
	if err != nil {
		log.Fatal(err)
	}

	w := &client.Worker{Client: c}
	w.Handle("emails", func(ctx context.Context, j *client.Job) error {
		var mail struct{ To string }
		if err := j.Decode(&mail); err != nil {
			return err
		}
		fmt.Println("to", mail.To)
		j.SetResult(map[string]bool{"sent": true})
		cancel() // this example has one job
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: to ada@example.com
}

// A long job saves its progress from time to time, so that the next attempt continues there.
func ExampleJob_SetCheckpoint() {
	c, stopNode := startNode()
	defer stopNode()
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "import", RetryBackoff: "none"}); err != nil {
		log.Fatal(err)
	}

	w := &client.Worker{Client: c}
	w.Handle("import", func(ctx context.Context, j *client.Job) error {
		var row int
		if _, err := j.Resume(&row); err != nil {
			return err
		}
		for ; row < 4; row++ {
			if row == 2 && j.Attempt == 1 {
				return errors.New("the database is away")
			}
			fmt.Println("attempt", j.Attempt, "row", row)
			j.SetCheckpoint(row + 1)
		}
		cancel()
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// attempt 1 row 0
	// attempt 1 row 1
	// attempt 2 row 2
	// attempt 2 row 3
}

// An agent's job continues until its handler says that it is done. The server records the usage and
// outcome of each iteration, and holds a job that reaches a limit.
func ExampleJob_Continue() {
	c, stopNode := startNode()
	defer stopNode()
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := c.Enqueue(ctx, api.EnqueueRequest{Queue: "agent", Agent: &api.Agent{MaxIterations: 10}}); err != nil {
		log.Fatal(err)
	}

	w := &client.Worker{Client: c}
	w.Handle("weather", func(_ context.Context, j *client.Job) error {
		j.SetResult("sunny")
		return nil
	})
	w.Handle("agent", func(_ context.Context, j *client.Job) error {
		j.AddUsage(api.ReportedUsage{InputTokens: 1200, OutputTokens: 80, Model: "model-1", Provider: "acme"})
		if j.Agent.Iteration == 1 {
			j.Continue(api.ToolCall{Name: "weather", EnqueueRequest: api.EnqueueRequest{Queue: "weather"}})
			return nil
		}
		fmt.Printf("iteration %d: it is %s\n", j.Agent.Iteration, j.ToolResults[0].Result)
		cancel()
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: iteration 2: it is "sunny"
}

// A stream sends enqueues, acks and fetches in one message each.
func ExampleStream() {
	c, stopNode := startNode()
	defer stopNode()
	ctx := context.Background()
	s := c.Stream()
	defer s.Close()

	ask := &api.FetchRequest{Queues: []string{"q"}, WorkerID: "worker-1"}
	out, err := s.Do(ctx, client.Frame{Enqueues: []api.EnqueueRequest{{Queue: "q"}, {Queue: "q"}}, Fetch: ask, Count: 2})
	if err != nil {
		log.Fatal(err)
	}
	var acks []api.AckItem
	for _, j := range out.Jobs {
		acks = append(acks, api.AckItem{JobID: j.JobID, AckRequest: api.AckRequest{LeaseToken: j.LeaseToken}})
	}
	done, err := s.Do(ctx, client.Frame{Acks: acks})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(out.JobIDs), "enqueued,", len(out.Jobs), "fetched,", done.Acked, "acked")
	// Output: 2 enqueued, 2 fetched, 2 acked
}

// The main function of a worker: its configuration comes from the environment, and SIGTERM makes it
// drain.
func ExampleWorkerFromEnv() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w, err := client.WorkerFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	w.HealthAddr = client.DefaultHealthAddr
	w.Handle("emails", func(ctx context.Context, j *client.Job) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://mail.example.com/send", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err // tried again as the job says
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		j.SetResult(string(answer))
		return err
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
