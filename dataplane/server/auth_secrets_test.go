package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy/keyring"
)

// lockedBuffer is a buffer with several writers.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// A secret is only in the answer that creates it, and in no other answer and no log, whatever valid or
// invalid requests follow.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n := startNodeOn(t, host.Config{Logger: logger}, func(c *server.Config) {
		c.Logger = logger
		c.Limits = ratelimit.Limits{Failures: 1}
	})
	var answers bytes.Buffer
	do := func(method, path, key, body string) answer {
		t.Helper()
		a := n.send(method, path, key, body)
		answers.WriteString(method + " " + path + "\n")
		answers.Write(a.body)
		for name, values := range a.header {
			answers.WriteString("\n" + name + ": " + strings.Join(values, ","))
		}
		answers.WriteByte('\n')
		return a
	}
	// The answers that contain a secret are searched only for it.
	mint := func(path, body string) (k api.CreatedKey) {
		t.Helper()
		if err := json.Unmarshal(n.send("POST", path, n.admin, body).body, &k); err != nil || k.APIKey == "" {
			t.Fatalf("%s: %+v, %v", path, k, err)
		}
		return k
	}
	first := mint("/api/v1/auth/keys", `{"name":"ci","roles":["admin"]}`)
	second := mint("/api/v1/auth/keys/"+first.ID+"/rotate", `{}`)
	secrets := map[string]string{"the admin's key": n.admin, "a key": first.APIKey, "its next secret": second.APIKey,
		"a webhook's secret": "hook-secret-0123456789abcdef", "its next one": "hook-secret-fedcba9876543210"}

	hook := do("POST", "/api/v1/webhooks", n.admin, `{"url":"http://127.0.0.1:1/","secret":"hook-secret-0123456789abcdef","events":["*"]}`)
	var made api.Webhook
	if err := json.Unmarshal(hook.body, &made); err != nil || made.ID == "" {
		t.Fatalf("%d %s", hook.status, hook.body)
	}
	do("PUT", "/api/v1/webhooks/"+made.ID, n.admin, `{"url":"http://127.0.0.1:1/","secret":"hook-secret-fedcba9876543210","events":["*"]}`)
	do("POST", "/api/v1/webhooks/"+made.ID+"/test", n.admin, `{}`)
	for _, key := range []string{n.admin, first.APIKey, second.APIKey, second.APIKey + "x", second.APIKey[:len(second.APIKey)-1]} {
		for _, ask := range [][3]string{
			{"GET", "/api/v1/auth/keys", ""}, {"GET", "/api/v1/auth/keys/" + first.ID, ""},
			{"PUT", "/api/v1/auth/keys/" + first.ID, `{"roles":["admin"],"nonsense":"` + key + `"}`},
			{"GET", "/api/v1/webhooks", ""}, {"GET", "/api/v1/webhooks/" + made.ID, ""}, {"GET", "/api/v1/webhooks/" + made.ID + "/deliveries", ""},
			{"POST", "/api/v1/enqueue", `{"queue":"q"}`}, {"POST", "/api/v1/enqueue", `{"queue":`}, {"GET", "/api/v1/metrics", ""},
			{"GET", "/debug/pprof/cmdline", ""}, {"GET", "/debug/pprof/goroutine?debug=2", ""}, {"GET", "/api/v1/cluster/status", ""},
			{"GET", "/nowhere", ""}, {"DELETE", "/api/v1/queues", ""},
		} {
			do(ask[0], ask[1], key, ask[2])
		}
	}
	do("GET", "/api/v1/audit-logs", n.admin, "")
	do("DELETE", "/api/v1/auth/keys/"+first.ID, n.admin, "")
	log.mu.Lock()
	defer log.mu.Unlock()
	for what, secret := range secrets {
		// The text after the id of a key is its secret.
		if _, id, ok := keyring.Parse(secret); ok {
			secret = secret[strings.Index(secret, id)+len(id)+1:]
		}
		hash := keyring.Hash(secrets[what])
		for as, text := range map[string]string{
			"": secret, " in base64": base64.StdEncoding.EncodeToString([]byte(secret))[:20], " as its hash": hex.EncodeToString(hash[:]), " as its hash in base64": base64.StdEncoding.EncodeToString(hash[:]),
		} {
			for where, all := range map[string][]byte{"the log": log.b.Bytes(), "an answer": answers.Bytes()} {
				if at := bytes.Index(all, []byte(text)); at >= 0 {
					t.Errorf("%s%s is in %s: %.300q", what, as, where, all[max(0, at-150):])
				}
			}
		}
	}
	if log.b.Len() == 0 || answers.Len() < 10_000 {
		t.Errorf("%d bytes of log and %d of answers", log.b.Len(), answers.Len())
	}
}
