package client

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// serveHealth serves HealthAddr until closeHealth is called.
func (w *Worker) serveHealth(log *slog.Logger) (closeHealth func(), err error) {
	if w.HealthAddr == "" {
		return func() {}, nil
	}
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", w.HealthAddr)
	if err != nil {
		return nil, fmt.Errorf("worker: HealthAddr: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", w.Health())
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // returns after Close
	}()
	log.Info("worker: its health is at http://"+l.Addr().String()+"/healthz", "address", l.Addr().String())
	return func() { _ = s.Close(); <-ended }, nil
}
