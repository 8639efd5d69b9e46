package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/corvo/corvo/api"
)

const (
	disk        = "the disk"
	bareHandler = "bare net/http handler"
)

// openDisk measures the disk's part of a durable write: 4 KiB and a sync on a growing file.
func openDisk(_ context.Context, dir string) (map[row]measure, func() error, error) {
	f, err := os.Create(dir)
	if err != nil {
		return nil, nil, err
	}
	block := make([]byte, 4096)
	return map[row]measure{sync4KiB: func(ctx context.Context, d time.Duration) (outcome, error) {
		return drive(ctx, 1, d, func(context.Context, int) (int, error) {
			if _, err := f.Write(block); err != nil {
				return 0, err
			}
			return 1, f.Sync()
		})
	}}, f.Close, nil
}

// openHandler serves the enqueues of `corvo bench` by decoding and encoding alone, so that
// it measures the cost of HTTP and of the client.
func openHandler(context.Context, string) (map[row]measure, func() error, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/enqueue", func(w http.ResponseWriter, r *http.Request) {
		var req api.EnqueueRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, http.StatusCreated, api.EnqueueResponse{JobID: "job_0", Status: "pending"})
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	c := remote{"http://" + listener.Addr().String(), "key"}
	return map[row]measure{
			enqueue1:   c.bench("http", "enqueue", 1),
			enqueue32:  c.bench("http", "enqueue", 32),
			enqueue128: c.bench("http", "enqueue", 128),
		}, func() error {
			err := server.Close()
			if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
				err = errors.Join(err, served)
			}
			return err
		}, nil
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a disconnected client needs no answer
}
