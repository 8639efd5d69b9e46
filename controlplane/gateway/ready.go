package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/telemetry"
)

// serveOffline makes the gateway use the documents of an earlier run if there is no heartbeat within
// HearFirst.
func (g *Gateway) serveOffline(ctx context.Context) {
	timer := time.NewTimer(HearFirst)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	if !g.known.Swap(true) {
		g.log.Warn("the control plane does not answer: the gateway serves requests by the documents of an earlier run",
			"document", g.member.Number(), "age", g.age(), "limit", fleet.MaxAge)
	}
}

// age returns the time since the gateway last had every document; 0 while it follows the control plane.
func (g *Gateway) age() time.Duration {
	if g.member.Connected() {
		return 0
	}
	return max(0, g.config.Now().Sub(g.member.LastHeartbeat())).Round(time.Second)
}

// Ready returns nil if the gateway can serve requests, or else the reason.
func (g *Gateway) Ready() error {
	if !g.known.Load() {
		why := "the control plane has not been reached since the gateway started"
		if g.cache != nil && g.cache.refused != nil {
			why += ", and the documents of an earlier run cannot be used: see the log"
		}
		return errors.New("the namespaces are not known yet: " + why)
	}
	if age := g.age(); age > fleet.MaxAge {
		return fmt.Errorf("the documents are too old to authenticate requests: the control plane was last reached %s ago, and the limit is %s", age, fleet.MaxAge)
	}
	return nil
}

// readyz reports whether the gateway can serve. While the control plane is down, a gateway with documents
// stays ready until they are older than fleet.MaxAge or its certificate expires.
func (g *Gateway) readyz(w http.ResponseWriter, _ *http.Request) error {
	following := "yes"
	if !g.member.Connected() {
		following = fmt.Sprintf("no: serving by documents of %s ago, for %s at most", g.age(), fleet.MaxAge)
	}
	if err := g.Ready(); err != nil {
		return serve.WriteJSON(w, http.StatusServiceUnavailable, api.Health{Status: "unavailable", Checks: map[string]string{"namespaces": err.Error()}})
	}
	checks := map[string]string{"control_plane": following}
	if held := g.config.Certificate; held != nil {
		check, usable := held.Health()
		if !usable {
			return serve.WriteJSON(w, http.StatusServiceUnavailable, api.Health{Status: "unavailable", Checks: map[string]string{"certificate": check}})
		}
		checks["certificate"] = check
	}
	if g.cache != nil {
		checks["documents_kept"] = g.cache.state()
	}
	return serve.WriteJSON(w, http.StatusOK, api.Health{Status: "ok", Checks: checks})
}

// measure reports the remaining time of the certificate, the requests that wait for hosts, and the age of the
// documents once the gateway uses documents.
func (g *Gateway) measure(to *telemetry.Scrape) {
	if held := g.config.Certificate; held != nil {
		to.Gauge(telemetry.CertificateRemaining, held.Remaining().Seconds())
	}
	to.Gauge(telemetry.GatewayWaiting, float64(g.waiting.number()))
	to.Counter(telemetry.GatewayWaits, float64(g.waiting.served.Load()), "served")
	to.Counter(telemetry.GatewayWaits, float64(g.waiting.gaveUp.Load()), "gave_up")
	to.Counter(telemetry.GatewayWaits, float64(g.waiting.full.Load()), "refused")
	if g.known.Load() {
		to.Gauge(telemetry.GatewayDocumentsAge, g.age().Seconds())
	}
}
