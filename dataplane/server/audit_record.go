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

// audits reports whether the audit log records all requests to a route, granted and refused. On the other
// routes it records only missing credentials and permissions (see onRefused). These other routes are the GET
// routes, the open routes, the routes that only read, and the routes that workers and enqueuing clients call
// all day. A route with a new permission is recorded by default, unless its method is GET.
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

// auditState notes whether the audit log already has the record of a request.
type auditState struct {
	recorded atomic.Bool // an op of the request was decided, so the request needs no other record
}

// auditStateKey is the context key of a request's auditState.
type auditStateKey struct{}

// recordedError is the error of a request whose record the audit log already has.
type recordedError struct{ error }

func (e *recordedError) Unwrap() error { return e.error }

// auditing records granted requests whose ops wrote no audit record, such as requests about the node itself,
// which propose no op. It marks the error of a request whose op wrote one, so that onRefused does not record
// the request again.
func (s *Server) auditing(h serve.Handler) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		t := &auditState{}
		err := h(w, r.WithContext(context.WithValue(r.Context(), auditStateKey{}, t)))
		switch {
		case err != nil && t.recorded.Load():
			return &recordedError{err}
		case err == nil && !t.recorded.Load():
			who, route := serve.Called(r.Context())
			s.countRequest(who.Namespace, who, requestKind{r.Method, auditPath(r), successOf(route)}, r)
		}
		return err
	}
}

// audit makes the ops of a request on an audited route write an audit record.
func (q *request) audit(r *http.Request, route *serve.Route, remote string) {
	t, ok := r.Context().Value(auditStateKey{}).(*auditState)
	if !ok {
		return
	}
	q.auditState = t
	q.meta.RequestId = q.shards.Home().RequestID()
	q.meta.Audit = auditOf(r, q.who, requestKind{r.Method, auditPath(r), successOf(route)}, remote)
}

// answers sets the status that the audit record shows if the op is not refused. A handler calls it before it
// proposes the op, if that status differs from the route's.
func (q *request) answers(status int) {
	if q.meta.Audit != nil {
		q.meta.Audit.Status = uint32(status)
	}
}

// applied notes that an op of the request was applied or refused in the log, or answered from an idempotency
// key, so that the request needs no other audit record.
func (q *request) applied() {
	if q.auditState != nil {
		q.auditState.recorded.Store(true)
	}
}

// unmatched replaces the path of a request that matches no route, because the log must not store arbitrary
// text from an unknown sender.
const unmatched = "unmatched"

// onRefused records a refused request, unless one of its ops wrote the audit record. It records missing
// credentials and permissions on every route, and every refusal on an audited route. If a request matches no
// route, onRefused records it unless its method only reads.
func (s *Server) onRefused(r *http.Request, route *serve.Route, who tenancy.Principal, err error) {
	var e *api.Error
	if !errors.As(err, &e) || e.Code.Status() < 400 || e.Code.Status() > 499 {
		return // a failure, not a refusal
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
		return // an unauthenticated request to a host of the cloud belongs to no namespace
	}
	s.countRequest(namespace, who, kind, r)
}

func reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// otherMethod is the method that the audit log shows for a method outside the list of knownMethod.
const otherMethod = "other"

// knownMethod returns a known method unchanged, and otherMethod for any other word that a client may send.
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

// auditPath returns the path of a request as the audit log stores it: escaped, cut to job.MaxAuditPath, and
// without the query, which may contain private data.
func auditPath(r *http.Request) string {
	path := r.URL.EscapedPath()
	return path[:min(len(path), job.MaxAuditPath)]
}

// auditOf returns the description of a request that the audit log stores beside the principal.
func auditOf(r *http.Request, who tenancy.Principal, k requestKind, remote string) *op.Audit {
	return &op.Audit{
		Role: roleOf(who), Method: k.method, Path: k.path, Status: uint32(k.status),
		RequestId: serve.RequestID(r.Context()), Remote: strings.ToValidUTF8(remote[:min(len(remote), job.MaxAuditWord)], ""),
	}
}

// remote returns the address of the client as the audit log stores it.
func (s *Server) remote(r *http.Request) string {
	if from := s.limits.ClientAddress(r); from.IsValid() {
		return from.String()
	}
	return r.RemoteAddr
}

// roleOf returns "open" for a principal without a key, or the principal's roles, joined and cut to the length
// that the audit log stores.
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

// auditPrincipal returns the id of the principal's key, "open" for a principal without a key, or "" for an
// unknown sender.
func auditPrincipal(who tenancy.Principal) string {
	if who.Namespace == "" {
		return ""
	}
	return principalOf(who)
}
