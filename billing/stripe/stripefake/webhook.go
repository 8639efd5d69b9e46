package stripefake

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// secret signs the deliveries to an endpoint until a time. The zero time is for ever.
type secret struct {
	text  string
	until time.Time
}

// delivery is an event on its way to an endpoint.
type delivery struct {
	endpoint string
	body     []byte
	attempts int
	due      time.Time
}

// maxAttempts is the number of attempts after which the fake gives a delivery up. The waits between them double from
// firstWait.
const (
	maxAttempts = 8
	firstWait   = time.Hour
)

func (s *Server) createEndpoint(c *call) (object, *failure) {
	if err := c.need("url"); err != nil {
		return nil, err
	}
	if len(c.list("enabled_events")) == 0 {
		return nil, invalid("parameter_missing", "enabled_events", "Missing required param: enabled_events.")
	}
	if v := c.form.Get("api_version"); v != "" && v != APIVersion {
		return nil, invalid("", "api_version", "The fake knows only version %s.", APIVersion)
	}
	o := s.create("webhook_endpoint", "we", object{
		"url": c.form.Get("url"), "enabled_events": c.list("enabled_events"), "api_version": c.text("api_version"), "application": nil,
		"description": c.text("description"), "metadata": c.pairs("metadata"), "status": "enabled",
	})
	signing := "whsec_fake" + rand.Text()
	s.secrets[o["id"].(string)] = []secret{{text: signing}}
	created := maps.Clone(o)
	created["secret"] = signing // only the response to the create has it
	return created, nil
}

func (s *Server) listEndpoints(c *call) (object, *failure) {
	return s.page(c, "webhook_endpoint", func(object) bool { return true })
}

func (s *Server) updateEndpoint(c *call) (object, *failure) {
	o, err := s.find("webhook_endpoint", c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if events := c.list("enabled_events"); len(events) > 0 {
		o["enabled_events"] = events
	}
	for _, name := range []string{"url", "description"} {
		if c.has(name) {
			o[name] = c.text(name)
		}
	}
	if c.has("disabled") {
		o["status"] = map[bool]string{true: "disabled", false: "enabled"}[c.form.Get("disabled") == "true"]
	}
	maps.Copy(o["metadata"].(object), c.pairs("metadata"))
	return o, nil
}

func (s *Server) deleteEndpoint(c *call) (object, *failure) {
	id := c.PathValue("id")
	if _, err := s.find("webhook_endpoint", id); err != nil {
		return nil, err
	}
	delete(s.of("webhook_endpoint").byID, id)
	return object{"id": id, "object": "webhook_endpoint", "deleted": true}, nil
}

// RollSecret gives an endpoint a new secret. Deliveries are signed with both secrets for the overlap.
func (s *Server) RollSecret(endpoint string, overlap time.Duration) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.secrets[endpoint]
	if len(old) == 0 {
		return "", fmt.Errorf("webhook endpoint %s: %w", endpoint, ErrUnknown)
	}
	signing := "whsec_fake" + rand.Text()
	last := old[len(old)-1]
	last.until = s.cfg.Now().Add(overlap)
	s.secrets[endpoint] = []secret{last, {text: signing}}
	return signing, nil
}

// emit makes an event of a change, with a copy of the object as it is now, and queues it for the endpoints that want it.
func (s *Server) emit(name string, o object) {
	s.next++
	body, err := json.Marshal(object{
		"id": fmt.Sprintf("evt_fake%06d", s.next), "object": "event", "type": name, "api_version": APIVersion, "created": s.cfg.Now().Unix(),
		"livemode": false, "pending_webhooks": 1, "data": object{"object": o}, "request": object{"id": nil, "idempotency_key": nil},
	})
	if err != nil {
		panic(fmt.Sprintf("event %s is not JSON: %v", name, err))
	}
	for _, id := range s.of("webhook_endpoint").ids {
		endpoint := s.of("webhook_endpoint").byID[id]
		if endpoint == nil || endpoint["status"] != "enabled" {
			continue
		}
		if events := endpoint["enabled_events"].([]string); slices.Contains(events, "*") || slices.Contains(events, name) {
			s.pending = append(s.pending, &delivery{endpoint: id, body: body, due: s.cfg.Now()})
		}
	}
}

// Disorder says how Deliver disturbs deliveries. The zero value does not.
type Disorder struct {
	Shuffle *mathrand.Rand // delivers in a random order
	Repeat  int            // delivers each event that many times more
}

// Deliver sends the events that are due to their endpoints, each once. An event that its endpoint does not answer with 2xx is
// due again later. Deliver returns the numbers of requests that endpoints accepted and refused.
func (s *Server) Deliver(ctx context.Context, how Disorder) (accepted, refused int) {
	for _, d := range s.take(how) {
		url, header, ok := s.sign(d)
		if !ok {
			continue // the endpoint was removed
		}
		if post(ctx, url, header, d.body) {
			accepted++
			continue
		}
		refused++
		s.postpone(d)
	}
	return accepted, refused
}

// take removes the deliveries that are due from the queue.
func (s *Server) take(how Disorder) (due []*delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	s.pending = slices.DeleteFunc(s.pending, func(d *delivery) bool {
		if d.due.After(now) {
			return false
		}
		due = append(due, d)
		return true
	})
	for _, d := range slices.Clone(due) {
		for range how.Repeat {
			again := *d
			again.attempts = maxAttempts // a copy is not repeated
			due = append(due, &again)
		}
	}
	if how.Shuffle != nil {
		how.Shuffle.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	}
	return due
}

// sign returns the URL and the signature header of a delivery, with one signature for each valid secret.
func (s *Server) sign(d *delivery) (url, header string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	endpoint := s.of("webhook_endpoint").byID[d.endpoint]
	if endpoint == nil {
		return "", "", false
	}
	now := s.cfg.Now()
	parts := []string{"t=" + strconv.FormatInt(now.Unix(), 10)}
	for _, k := range s.secrets[d.endpoint] {
		if k.until.IsZero() || now.Before(k.until) {
			parts = append(parts, "v1="+Signature(k.text, now, d.body))
		}
	}
	return endpoint["url"].(string), strings.Join(parts, ","), true
}

// Signature returns the signature of a body in the form of the header Stripe-Signature.
func Signature(secret string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return hex.EncodeToString(mac.Sum(nil))
}

// postpone queues a delivery again, or gives it up.
func (s *Server) postpone(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.attempts++; d.attempts < maxAttempts {
		d.due = s.cfg.Now().Add(firstWait << (d.attempts - 1))
		s.pending = append(s.pending, d)
	}
}

// post sends a delivery and reports whether the endpoint accepted it.
func post(ctx context.Context, url, header string, body []byte) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("Stripe-Signature", header)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)) // only the status counts
	return resp.StatusCode/100 == 2
}

// Run delivers events each second until the context ends.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Deliver(ctx, Disorder{})
		}
	}
}
