package provider_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// The tests of this package use these words. A peer is a small cloud and a bare node in one handler, and a
// platform is a real bare node. A tool is the real terraform with this provider, and a Dir is a directory
// with a configuration and its state. A life is a test that takes resources through create, update, drift,
// import and destroy. look reads or changes the state of the peer between two requests, which is how drift
// comes about. settled checks that a plan is empty. says checks the words of a refusal.

// peer answers the few routes that the provider uses, of a cloud and of a bare node, so that the provider's
// own tests need no more than this package. It parses every credential as the real servers do, so that it
// accepts only credentials that the provider made.
type peer struct {
	URL   string
	token string // the only cloud token

	mu         sync.Mutex
	changed    *sync.Cond
	last       int
	namespaces map[string]*peerNamespace
	operations map[string]*api.Operation
	answers    map[string]api.Operation // of creates, by Idempotency-Key
	holding    bool                     // operations do not end
	waiters    int                      // for operations that run
	node       *peerNamespace           // seen by requests without a credential
	orgs       []string
}

type peerNamespace struct {
	api.Namespace
	keys   map[string]api.Key
	hashes map[string]string // by id
	queues map[string]*api.Queue

	schedules map[string]*api.Schedule // by id
}

const peerToken = "a-cloud-token-that-no-state-may-show"

func startPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{token: peerToken, namespaces: map[string]*peerNamespace{}, operations: map[string]*api.Operation{}, answers: map[string]api.Operation{}, orgs: []string{"org_1"}}
	p.changed = sync.NewCond(&p.mu)
	p.node = newPeerNamespace("default", "default", "")
	mux := http.NewServeMux()
	for pattern, route := range map[string]func(*http.Request) (any, error){
		"GET /cloud/v1/orgs":                              p.listOrgs,
		"POST /cloud/v1/orgs/{org}/namespaces":            p.createNamespace,
		"GET /cloud/v1/namespaces/{ns}":                   p.getNamespace,
		"PATCH /cloud/v1/namespaces/{ns}":                 p.updateNamespace,
		"DELETE /cloud/v1/namespaces/{ns}":                p.deleteNamespace,
		"GET /cloud/v1/operations/{id}":                   p.getOperation,
		"POST /cloud/v1/namespaces/{ns}/keys":             p.createKey,
		"GET /cloud/v1/namespaces/{ns}/keys/{id}":         p.getKey,
		"DELETE /cloud/v1/namespaces/{ns}/keys/{id}":      p.revokeKey,
		"POST /cloud/v1/namespaces/{ns}/keys/{id}/rotate": p.rotateKey,
		"GET /api/v1/queues/{name}":                       p.getQueue,
		"PUT /api/v1/queues/{name}":                       p.putQueue,
		"DELETE /api/v1/queues/{name}":                    p.deleteQueue,
		"POST /api/v1/schedules":                          p.createSchedule,
		"GET /api/v1/schedules/{id}":                      p.getSchedule,
		"PUT /api/v1/schedules/{id}":                      p.putSchedule,
		"DELETE /api/v1/schedules/{id}":                   p.deleteSchedule,
		"POST /api/v1/schedules/{id}/pause":               p.pauseSchedule,
	} {
		cloud := strings.Contains(pattern, "/cloud/v1/")
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if cloud && bearer(r) != p.token {
				answer(w, nil, api.Errorf(api.Unauthorized, "no such cloud token"))
				return
			}
			out, err := route(r)
			answer(w, out, err)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

func newPeerNamespace(id, name, endpoint string) *peerNamespace {
	ns := &peerNamespace{keys: map[string]api.Key{}, hashes: map[string]string{}, queues: map[string]*api.Queue{}, schedules: map[string]*api.Schedule{}}
	ns.ID, ns.Name, ns.Status.Endpoint = id, name, endpoint
	return ns
}

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

func answer(w http.ResponseWriter, out any, err error) {
	status := http.StatusOK
	if err != nil {
		e := err.(*api.Error)
		status, out = e.Code.Status(), map[string]any{"error": e.Message, "code": e.Code, "details": e.Details}
	}
	switch v := out.(type) {
	case api.Schedule:
		w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(v.Version, 10)))
	case *api.Queue:
		w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(v.Version, 10)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(out) // to the loopback; the reader notices a missing part
}

func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return api.Errorf(api.ParseError, "%v", err)
	}
	return nil
}

func refuse(field, why string) error {
	return &api.Error{Code: api.ValidationError, Message: field + " " + why, Details: map[string]any{"fields": []api.FieldError{{Field: field, Error: why}}}}
}

func (p *peer) id(kind string) string {
	p.last++
	return fmt.Sprintf("%s_%d", kind, p.last)
}

func (p *peer) listOrgs(*http.Request) (any, error) {
	var page api.Page[api.Org]
	for _, id := range p.orgs {
		page.Items = append(page.Items, api.Org{Resource: api.Resource{ID: id}})
	}
	return page, nil
}

// look reads or changes the state, between two requests.
func (p *peer) look(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

func (p *peer) find(idOrName string) (*peerNamespace, error) {
	for _, ns := range p.namespaces {
		if ns.ID == idOrName || ns.Name == idOrName {
			return ns, nil
		}
	}
	return nil, api.Errorf(api.NotFound, "there is no namespace %s", idOrName)
}

func (p *peer) createNamespace(r *http.Request) (any, error) {
	var req api.CreateNamespaceRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return nil, api.Errorf(api.ValidationError, "a create without an Idempotency-Key")
	}
	if op, ok := p.answers[key]; ok {
		return op, nil
	}
	if _, err := p.find(req.Name); err == nil {
		return nil, api.Errorf(api.Conflict, "there is a namespace %s already", req.Name)
	}
	replicas, shards := 1, 1
	if n := req.Spec.Replicas; n != nil {
		replicas = *n
	}
	if n := req.Spec.Shards; n != nil {
		shards = *n
	}
	switch {
	case replicas < 1:
		return nil, refuse("spec.replicas", "is none")
	case replicas == 5:
		return nil, refuse("spec.replicas", "is more than there are hosts")
	case shards < 1:
		return nil, refuse("spec.shards", "is none")
	}
	ns := newPeerNamespace(p.id("ns"), req.Name, p.URL)
	ns.Spec = api.NamespaceSpec{
		Region: cmp.Or(req.Spec.Region, "local"), Tier: cmp.Or(req.Spec.Tier, "shared"),
		Replicas: replicas, Shards: shards,
		DeletionProtection: req.Spec.DeletionProtection != nil && *req.Spec.DeletionProtection,
	}
	ns.Status.Phase = api.NamespaceProvisioning
	p.namespaces[ns.ID] = ns
	op := p.begin("create-namespace", ns)
	p.answers[key] = op
	return op, nil
}

func (p *peer) begin(kind string, ns *peerNamespace) api.Operation {
	op := &api.Operation{ID: p.id("op"), Kind: kind, Status: api.OperationRunning, Resource: api.ResourceRef{Type: "namespace", ID: ns.ID, Name: ns.Name}}
	p.operations[op.ID] = op
	ns.Status.Operation = op.ID
	if !p.holding {
		p.end(op)
	}
	return *op
}

func (p *peer) end(op *api.Operation) {
	op.Status = api.OperationDone
	ns := p.namespaces[op.Resource.ID]
	ns.Status.Operation, ns.Status.Phase = "", api.NamespaceActive
	if op.Kind == "delete-namespace" {
		delete(p.namespaces, ns.ID)
	}
	p.changed.Broadcast()
}

// hold keeps operations from ending until release.
func (p *peer) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = true
}

func (p *peer) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = false
	for _, op := range p.operations {
		if op.Status == api.OperationRunning {
			p.end(op)
		}
	}
}

// awaitWaiter waits until a request waits for a running operation.
func (p *peer) awaitWaiter() error {
	const limit = time.Minute
	timer := time.AfterFunc(limit, p.changed.Broadcast)
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for until := time.Now().Add(limit); p.waiters == 0; p.changed.Wait() {
		if !time.Now().Before(until) {
			return fmt.Errorf("nobody has waited for an operation in %s", limit)
		}
	}
	return nil
}

func (p *peer) getNamespace(r *http.Request) (any, error) {
	ns, err := p.find(r.PathValue("ns"))
	if err != nil {
		return nil, err
	}
	return ns.Namespace, nil
}

func (p *peer) updateNamespace(r *http.Request) (any, error) {
	var req api.UpdateNamespaceRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	ns, err := p.find(r.PathValue("ns"))
	if err != nil {
		return nil, err
	}
	if req.Spec != nil && req.Spec.DeletionProtection != nil {
		ns.Spec.DeletionProtection = *req.Spec.DeletionProtection
	}
	if req.Spec != nil && req.Spec.Replicas != nil {
		ns.Spec.Replicas = *req.Spec.Replicas
	}
	return ns.Namespace, nil
}

func (p *peer) deleteNamespace(r *http.Request) (any, error) {
	ns, err := p.find(r.PathValue("ns"))
	if err != nil {
		return nil, err
	}
	if ns.Spec.DeletionProtection {
		return nil, api.Errorf(api.StateConflict, "namespace %s is protected from deletion: switch deletion_protection off", ns.Name)
	}
	ns.Status.Phase = api.NamespaceDeleting
	return p.begin("delete-namespace", ns), nil
}

// getOperation waits while the operation runs, for as long as the client asks.
func (p *peer) getOperation(r *http.Request) (any, error) {
	op, ok := p.operations[r.PathValue("id")]
	if !ok {
		return nil, api.Errorf(api.NotFound, "there is no operation %s", r.PathValue("id"))
	}
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil {
		return nil, api.Errorf(api.ValidationError, "wait: %v", err)
	}
	p.waiters++
	defer func() { p.waiters-- }()
	p.changed.Broadcast()
	timer := time.AfterFunc(wait, p.changed.Broadcast)
	defer timer.Stop()
	stop := context.AfterFunc(r.Context(), p.changed.Broadcast)
	defer stop()
	for until := time.Now().Add(wait); op.Status == api.OperationRunning && time.Now().Before(until) && r.Context().Err() == nil; {
		p.changed.Wait()
	}
	return *op, nil
}

func (p *peer) createKey(r *http.Request) (any, error) {
	var req api.CreateCloudKeyRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	ns, err := p.find(r.PathValue("ns"))
	if err != nil {
		return nil, err
	}
	if len(req.QueueScope) > 0 && strings.Contains(req.QueueScope[0], "[") {
		return nil, refuse("queue_scope[0]", "is no queue's name")
	}
	key := api.Key{ID: req.ID, Name: req.Name, Roles: req.Roles, QueueScope: req.QueueScope, Enabled: true}
	if at, ok, err := req.ExpiresAt.Parse(); err != nil {
		return nil, refuse("expires_at", err.Error())
	} else if ok {
		utc := api.TimeOf(at)
		key.ExpiresAt = &utc
	}
	ns.keys[key.ID], ns.hashes[key.ID] = key, req.Hash
	return api.CloudKey{Key: key}, nil
}

func (p *peer) key(r *http.Request) (*peerNamespace, api.Key, error) {
	ns, err := p.find(r.PathValue("ns"))
	if err != nil {
		return nil, api.Key{}, err
	}
	key, ok := ns.keys[r.PathValue("id")]
	if !ok || expired(key) {
		return nil, key, api.Errorf(api.NotFound, "there is no key %s", r.PathValue("id"))
	}
	return ns, key, nil
}

func expired(k api.Key) bool {
	if k.ExpiresAt == nil {
		return false
	}
	at, _, err := k.ExpiresAt.Parse()
	return err != nil || !at.After(time.Now())
}

func (p *peer) getKey(r *http.Request) (any, error) {
	_, key, err := p.key(r)
	return key, err
}

func (p *peer) revokeKey(r *http.Request) (any, error) {
	ns, key, err := p.key(r)
	if err == nil {
		delete(ns.keys, key.ID)
	}
	return api.Status{}, err
}

func (p *peer) rotateKey(r *http.Request) (any, error) {
	var req api.RotateKeyRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	ns, old, err := p.key(r)
	if err != nil {
		return nil, err
	}
	overlap, err := req.Overlap.Parse(0)
	if err != nil || overlap > 168*time.Hour {
		return nil, refuse("overlap", "is more than 168h")
	}
	fresh := old
	fresh.ID = req.ID
	if old.ExpiresAt != nil {
		later := api.TimeOf(time.Now().Add(time.Hour)) // its lifetime again, not its end
		fresh.ExpiresAt = &later
	}
	ends := api.TimeOf(time.Now().Add(overlap))
	old.ExpiresAt = &ends
	ns.keys[old.ID], ns.keys[fresh.ID], ns.hashes[fresh.ID] = old, fresh, req.Hash
	return api.CloudKey{Key: fresh}, nil
}

// enter returns the namespace that a data-plane request may see.
func (p *peer) enter(r *http.Request) (*peerNamespace, error) {
	text := bearer(r)
	if text == p.token {
		return p.find(r.Header.Get(api.NamespaceHeader))
	}
	if text == "" {
		return p.node, nil
	}
	secret, err := client.ReadSecret(text)
	for _, ns := range append(slices.Collect(maps.Values(p.namespaces)), p.node) {
		key, ok := ns.keys[secret.ID]
		if err == nil && ok && !expired(key) && ns.hashes[secret.ID] == secret.Hash {
			return ns, nil
		}
	}
	return nil, api.Errorf(api.Unauthorized, "no such key")
}

func (p *peer) queue(r *http.Request) (*peerNamespace, *api.Queue, error) {
	ns, err := p.enter(r)
	if err != nil {
		return nil, nil, err
	}
	q, ok := ns.queues[r.PathValue("name")]
	if !ok {
		return ns, nil, api.Errorf(api.NotFound, "there is no queue %s", r.PathValue("name"))
	}
	return ns, q, nil
}

func (p *peer) getQueue(r *http.Request) (any, error) {
	_, q, err := p.queue(r)
	return q, err
}

func (p *peer) putQueue(r *http.Request) (any, error) {
	var req api.PutQueueRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	ns, err := p.enter(r)
	if err != nil {
		return nil, err
	}
	q := cmp.Or(ns.queues[r.PathValue("name")], &api.Queue{Name: r.PathValue("name")})
	if match := r.Header.Get("If-Match"); match != "" && match != strconv.Quote(strconv.FormatInt(q.Version, 10)) {
		return nil, api.Errorf(api.PreconditionFailed, "queue %s has version %d, not %s: read it again", q.Name, q.Version, match)
	}
	q.Version++
	q.Paused, q.MaxConcurrency = req.Paused != nil && *req.Paused, req.MaxConcurrency
	q.RateLimit, q.RateWindowMs, q.MaxLength = req.RateLimit, req.RateWindowMs, req.MaxLength
	q.OnFull = cmp.Or(req.OnFull, api.OnFullReject)
	q.Retention, q.Defaults = normalRetention(req.Retention), normalDefaults(req.Defaults)
	if d := q.Defaults; d != nil && d.RetryBaseDelay != nil && d.RetryMaxDelay != nil && lasting(*d.RetryBaseDelay) > lasting(*d.RetryMaxDelay) {
		return nil, refuse("defaults.retry_max_delay", "is shorter than defaults.retry_base_delay")
	}
	ns.queues[q.Name] = q
	return q, nil
}

func (p *peer) deleteQueue(r *http.Request) (any, error) {
	ns, q, err := p.queue(r)
	if err != nil {
		return nil, err
	}
	if n := q.Pending + q.Active + q.Held + q.Scheduled + q.Retrying; n > 0 && r.URL.Query().Get("if_settled") == "true" {
		return nil, api.Errorf(api.StateConflict, "queue %s has jobs that have not settled (%d)", q.Name, n)
	}
	delete(ns.queues, q.Name)
	return api.Status{}, nil
}
