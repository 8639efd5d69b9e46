package front

import (
	"crypto/tls"
	"log/slog"
	"sync"
	"time"
)

// refusedLog is the least time between two log lines about refused certificates, because a client tries again and
// again.
const refusedLog = 10 * time.Second

// certificateRefusals logs the clients whose certificates a configuration refuses. net/http logs them too, but only at
// the level debug, where the failed handshakes of all other clients are.
type certificateRefusals struct {
	verify func(tls.ConnectionState) error
	log    *slog.Logger

	mu      sync.Mutex
	refused uint64    // since the start
	logged  time.Time // time of the last log line
}

// warnOfRefused returns the configuration with a warning in the log for refused certificates. It returns a configuration
// that verifies no clients as it is.
func warnOfRefused(c *tls.Config, log *slog.Logger) *tls.Config {
	if c == nil || c.VerifyConnection == nil {
		return c
	}
	r := &certificateRefusals{verify: c.VerifyConnection, log: log}
	c = c.Clone()
	c.VerifyConnection = r.check
	return c
}

// check verifies a client. The error's text names the client and the reason.
func (r *certificateRefusals) check(s tls.ConnectionState) error {
	err := r.verify(s)
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused++
	if now := time.Now(); now.Sub(r.logged) > refusedLog {
		r.logged = now
		r.log.Warn("the certificate of a client is refused", "error", err, "refused", r.refused)
	}
	return err
}
