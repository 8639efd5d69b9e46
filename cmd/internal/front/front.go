// Package front serves the HTTP listener of a process with limits on its connections, until it is stopped and
// has finished the requests under way. It knows no routes.
package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Limits of connections. Bodies have no limit here, because every route bounds its own. The write timeout
// protects against clients that do not read their response. It counts from the request's header, so it must
// outlast a fetch that waits a minute. Handlers lift it for responses that may take longer, and bound those
// themselves.
const (
	headerTimeout  = 10 * time.Second
	writeTimeout   = 2 * time.Minute
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// maxStreams is the number of HTTP/2 requests that one connection carries at once; a waiting fetch counts
	// as one. The server pings a connection that is silent for pingTimeout, and closes it if no answer comes
	// within as much time again.
	maxStreams  = 1000
	pingTimeout = 30 * time.Second
)

// protocols returns HTTP/1.1, and HTTP/2 for clients that speak it from the first byte or agree on it in TLS.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// timeouts override the limits of connections; 0 = the constant above.
type timeouts struct{ header, write, idle time.Duration }

// Config describes a front.
type Config struct {
	// Name is the part of a cloud that listens, for the log; empty if the process is one part.
	Name    string
	Handler http.Handler
	// Drain ends waiting requests, such as long polls, when the front stops.
	Drain func()
	// Notice is the time in which the front still takes requests after Drain, so that gateways learn from its responses
	// that it stops, and send it no further ones. 0 = it stops at once.
	Notice time.Duration
	// ShutdownTimeout is the time for requests under way to finish.
	ShutdownTimeout time.Duration
	// MaxConnections is the limit on open connections; 0 = no limit.
	MaxConnections int
	// FilesPerConnection is the number of files that a connection takes; 0 = 1.
	FilesPerConnection int
	// TLS makes the front serve TLS; nil = plain HTTP.
	TLS    *tls.Config
	Logger *slog.Logger

	timeouts timeouts // set by tests
}

// Serve serves the listener until ctx ends. It then drains, and lets requests under way finish within the
// shutdown timeout. It returns an error if the listener fails or if requests were cut off.
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
	srv.TLSConfig = warnOfRefused(c.TLS, c.Logger)
	if c.MaxConnections > 0 {
		listener = &bounded{Listener: listener, most: int64(c.MaxConnections), silent: c.TLS != nil, log: c.Logger}
	}
	listener = answering{Listener: listener, secure: c.TLS != nil}
	watch(srv)
	log := c.Logger
	if c.Name != "" {
		log = log.With("server", c.Name)
	}
	if limit, ok := openFiles(); ok {
		warnOfFiles(log, c, limit)
	}
	log.Info("listening", "listener", listener.Addr().String(), "url", c.URL(listener.Addr()))
	served := make(chan error, 1)
	go func() {
		if c.TLS != nil {
			served <- srv.ServeTLS(listener, "", "")
			return
		}
		served <- srv.Serve(listener)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	log.Info("shutting down", "listener", listener.Addr().String(), "timeout", c.ShutdownTimeout)
	if c.Drain != nil {
		c.Drain()
	}
	time.Sleep(c.Notice)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(closing); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off by the shutdown timeout: %w", err), srv.Close())
	}
	return nil
}

// URL returns the endpoint at which this machine reaches the front on a listener. With TLS the certificate is probably
// for another name.
func (c Config) URL(addr net.Addr) string {
	url := URL(addr)
	if c.TLS != nil {
		url = "https" + strings.TrimPrefix(url, "http")
	}
	return url
}

// URL returns the endpoint at which this machine reaches a listener of plain HTTP. A listener that is bound to every
// address is reached on loopback.
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

// Loopback reports whether only this machine reaches a bind address.
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
