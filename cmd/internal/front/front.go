// Package front is the HTTP front of a process: a listener served with limits on
// its connections, until it is told to stop and has finished what was under way.
// It knows no routes.
package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Limits of connections. Bodies have none here: every route bounds its own. The
// write timeout counts from the request's header, so it must outlast a fetch that
// waits a minute; it is for clients that do not read their answer. Handlers lift it for
// answers that may take longer, and bound those themselves.
const (
	headerTimeout  = 10 * time.Second
	writeTimeout   = 2 * time.Minute
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// maxStreams is how many requests of HTTP/2 one connection carries at once: a poll is
	// one of them for as long as it waits. Who is silent for pingTimeout is asked whether
	// it is there, and cut off when it does not say so in as much time again.
	maxStreams  = 1000
	pingTimeout = 30 * time.Second
)

// protocols are HTTP/1.1, and HTTP/2 for those who speak it from the first byte or
// agree on it in TLS.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// timeouts of connections; 0 = the one above.
type timeouts struct{ header, write, idle time.Duration }

// Config is what a front serves.
type Config struct {
	// Name is the part of a cloud that listens, for the log; empty if the process is
	// one part.
	Name    string
	Handler http.Handler
	// Drain ends what would wait, such as long polls, once the front stops.
	Drain func()
	// ShutdownTimeout is how long requests under way may take to finish.
	ShutdownTimeout time.Duration
	// MaxConnections is how many there may be at once; 0 = any number.
	MaxConnections int
	// FilesPerConnection is how many files a connection takes; 0 = 1.
	FilesPerConnection int
	Logger             *slog.Logger

	timeouts timeouts // those of tests
}

// Serve serves the listener until ctx ends, then drains and finishes what is under
// way within the shutdown timeout.
func Serve(ctx context.Context, listener net.Listener, c Config) error {
	srv := &http.Server{
		Handler:           c.Handler,
		ReadHeaderTimeout: cmp.Or(c.timeouts.header, headerTimeout),
		WriteTimeout:      cmp.Or(c.timeouts.write, writeTimeout),
		IdleTimeout:       cmp.Or(c.timeouts.idle, idleTimeout),
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols(),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingTimeout, PingTimeout: pingTimeout},
		ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
	if c.MaxConnections > 0 {
		listener = &bounded{Listener: listener, most: int64(c.MaxConnections), log: c.Logger}
	}
	listener = answering{listener}
	watch(srv)
	log := c.Logger
	if c.Name != "" {
		log = log.With("part", c.Name)
	}
	if limit, ok := openFiles(); ok {
		warnOfFiles(log, c, limit)
	}
	log.Info("listening", "listener", listener.Addr().String(), "url", URL(listener.Addr()))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	log.Info("shutting down", "listener", listener.Addr().String(), "timeout", c.ShutdownTimeout)
	if c.Drain != nil {
		c.Drain()
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(closing); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off by the shutdown timeout: %w", err), srv.Close())
	}
	return nil
}

// URL is the endpoint by which a listener is reached from this machine: one that
// is bound to every address is reached on loopback.
func URL(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Loopback says whether every address behind a bind address is this machine's
// own.
func Loopback(bind string) bool {
	host, _, err := net.SplitHostPort(bind)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
