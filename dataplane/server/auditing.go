package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/tenancy"
)

// audits says whether all that is asked of a route is recorded in the audit log:
// unless it reads, or is what workers and those who enqueue do all day. A route with
// a right that is new here is recorded.
func audits(route serve.Route) bool {
	if route.Method == http.MethodGet {
		return false
	}
	switch route.Permission {
	case serve.Open, tenancy.JobEnqueue, tenancy.JobWork, tenancy.JobRead:
		return false
	}
	return true
}

// trail is what has become of an audited request.
type trail struct {
	recorded atomic.Bool // an op of it has been applied, whose entry has the record
}

// trailKey is the context key of a request's trail.
type trailKey struct{}

// recordedError is the error of a request that an op has recorded.
type recordedError struct{ error }

func (e *recordedError) Unwrap() error { return e.error }

// auditing makes a route's requests known that come to no op and are granted: what
// they ask is of the node. Those that are refused come by onRefused.
func (s *Server) auditing(h serve.Handler) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		t := &trail{}
		err := h(w, r.WithContext(context.WithValue(r.Context(), trailKey{}, t)))
		switch {
		case err != nil && t.recorded.Load():
			return &recordedError{err}
		case err == nil && !t.recorded.Load():
			who, route := serve.Called(r.Context())
			s.requests.add(who.Namespace, who, requestKind{r.Method, auditPath(r), successOf(route)}, r)
		}
		return err
	}
}

// audit has the ops of a request recorded that is on an audited route.
func (q *request) audit(r *http.Request, route *serve.Route, remote string) {
	t, ok := r.Context().Value(trailKey{}).(*trail)
	if !ok {
		return
	}
	q.trail = t
	q.meta.RequestId = q.shards.Home().RequestID()
	q.meta.Audit = auditOf(r, q.who, requestKind{r.Method, auditPath(r), successOf(route)}, remote)
}

// answers says with which status a request is answered when its op is not refused,
// where that is not always the route's.
func (q *request) answers(status int) {
	if q.meta.Audit != nil {
		q.meta.Audit.Status = uint32(status)
	}
}

// applied notes that an op of the request is in the log, done or refused, and its
// record with it.
func (q *request) applied() {
	if q.trail != nil {
		q.trail.recorded.Store(true)
	}
}

// unmatched stands for the path of requests that no route is for: what a stranger
// asks for is not written down.
const unmatched = "unmatched"

// onRefused has a refused request recorded that came to no op: by anybody who has
// not the right to ask, and by those who have on routes that are audited.
func (s *Server) onRefused(r *http.Request, route *serve.Route, who tenancy.Principal, err error) {
	var e *api.Error
	if !errors.As(err, &e) || e.Code.Status() < 400 || e.Code.Status() > 499 {
		return // it is not refused, it fails
	}
	if recorded := (*recordedError)(nil); errors.As(err, &recorded) {
		return
	}
	kind := requestKind{knownMethod(r.Method), unmatched, e.Code.Status()}
	switch {
	case route != nil:
		kind.path = route.Path
		if kind.status != http.StatusUnauthorized && kind.status != http.StatusForbidden && !route.Audited {
			return
		}
	case reads(r.Method):
		return
	}
	namespace := who.Namespace
	if namespace == "" {
		namespace = s.cfg.Namespace
	}
	if namespace == "" {
		return // a stranger at a host of the cloud is at nobody's namespace
	}
	s.requests.add(namespace, who, kind, r)
}

func reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// otherMethod stands for what knownMethod does not know.
const otherMethod = "other"

// knownMethod is the method, where it is one: a client can send any word.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return method
	}
	return otherMethod
}

func successOf(route *serve.Route) int {
	if route == nil || route.Status == 0 {
		return http.StatusOK
	}
	return route.Status
}

// auditPath is the path of a request as the audit log keeps it: escaped, and without
// the query, which may hold what is nobody's business.
func auditPath(r *http.Request) string {
	path := r.URL.EscapedPath()
	return path[:min(len(path), job.MaxAuditPath)]
}

// auditOf is what the log says of a request besides who sent it.
func auditOf(r *http.Request, who tenancy.Principal, k requestKind, remote string) *op.Audit {
	return &op.Audit{
		Role: roleOf(who), Method: k.method, Path: k.path, Status: uint32(k.status),
		RequestId: serve.RequestID(r.Context()), Remote: strings.ToValidUTF8(remote[:min(len(remote), job.MaxAuditWord)], ""),
	}
}

// remote is where a request comes from, as the audit log keeps it.
func (s *Server) remote(r *http.Request) string {
	if from := s.limits.ClientAddress(r); from.IsValid() {
		return from.String()
	}
	return r.RemoteAddr
}

// roleOf are the roles of who asks.
func roleOf(who tenancy.Principal) string {
	if who.Open {
		return "open"
	}
	roles := make([]string, len(who.Roles))
	for i, role := range who.Roles {
		roles[i] = string(role)
	}
	text := strings.Join(roles, ",")
	return strings.ToValidUTF8(text[:min(len(text), job.MaxAuditRole)], "")
}

// auditPrincipal is who asked; "" where nobody knows.
func auditPrincipal(who tenancy.Principal) string {
	if who.Namespace == "" {
		return ""
	}
	return principalOf(who)
}
