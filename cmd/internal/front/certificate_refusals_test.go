package front

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// lockedLog is a log that a test reads while a front writes it.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestRefusedCertificatesAreLogged connects clients that a front refuses. Its log says why at the level warn, once for
// several tries, and a client that is accepted leaves no line.
func TestRefusedCertificatesAreLogged(t *testing.T) {
	t.Parallel()
	made := newPair(t, 1)
	certificate, err := tls.X509KeyPair(made.cert, made.key)
	if err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("the clock of host_1 is wrong")
	var refuses atomic.Bool
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert}
	config.VerifyConnection = func(tls.ConnectionState) error {
		if refuses.Load() {
			return wrong
		}
		return nil
	}
	var log lockedLog
	addr := serving(t, Config{TLS: config, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	connect := func() error {
		conn := tls.Client(dial(t, addr), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}})
		write(t, conn, request)
		_, err := conn.Read(make([]byte, 1)) // the server verifies after the client has finished its handshake
		return err
	}
	if err := connect(); err != nil || log.String() != "" {
		t.Fatalf("an accepted client: %v, and the log has %s", err, log.String())
	}
	refuses.Store(true)
	for range 3 {
		if connect() == nil {
			t.Fatal("the client is accepted")
		}
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "the certificate of a client is refused") || !strings.Contains(got, wrong.Error()) {
		t.Errorf("the log of three refusals: %s", got)
	}
}
