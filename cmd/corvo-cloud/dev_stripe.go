package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/corvo/corvo/billing/stripe/stripefake"
)

// fakeStripe is a fake of Stripe that runs beside a development cloud. The zero value runs nothing.
type fakeStripe struct {
	url    string
	server *http.Server
	stop   context.CancelFunc
	ended  sync.WaitGroup
}

// start serves the fake on a free port and delivers its webhooks until close.
func (s *fakeStripe) start(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("--stripe-fake: %w", err)
	}
	fake := stripefake.New(stripefake.Config{})
	s.url = "http://" + listener.Addr().String()
	s.server = &http.Server{Handler: fake, ReadHeaderTimeout: 10 * time.Second}
	ctx, s.stop = context.WithCancel(ctx)
	s.ended.Go(func() { fake.Run(ctx) })
	s.ended.Go(func() { _ = s.server.Serve(listener) }) // close ends it
	return nil
}

// close ends the fake and waits for its goroutines.
func (s *fakeStripe) close(context.Context) error {
	if s.server == nil {
		return nil
	}
	s.stop()
	err := s.server.Close()
	s.ended.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
