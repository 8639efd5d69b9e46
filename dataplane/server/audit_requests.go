package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"github.com/corvo/corvo/api/serve/tally"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/tenancy"
)

// requestBounds limits the records of requests without an op. Equal requests are recorded together, with a
// count, because each record takes a place in the audit log, which keeps records for months. Each namespace
// has its own audit log and quota of records.
var requestBounds = tally.Bounds{
	Kinds: 256,
	Burst: job.MaxAuditRequests, Every: 10 * time.Second,
	Rows: job.MaxAuditRequests,
}

// requestKind is the part of a request that equal requests share, besides their principal.
type requestKind struct {
	method, path string
	status       int
}

type requestName struct {
	principal string
	requestKind
}

// requests counts requests until they are recorded. Its destinations are the namespaces, with one quota each.
// The record of equal requests describes the first of them.
type requests = tally.Tally[struct{}, requestName, *op.Audit]

type requestRow = tally.Row[struct{}, requestName, *op.Audit]

func (s *Server) newRequests() *requests {
	return tally.New(tally.Config[struct{}, requestName, *op.Audit]{
		Bounds: requestBounds, Commit: s.recordRequests, Compare: knownFirst, Logger: s.cfg.Logger,
	})
}

// knownFirst orders requests of known principals first, because the audit log is about them.
func knownFirst(a, b requestName) int {
	rank := func(n requestName) int {
		if n.principal == "" {
			return 1
		}
		return 0
	}
	return cmp.Compare(rank(a), rank(b))
}

// countRequest counts a request whose ops wrote no audit record.
func (s *Server) countRequest(ns tenancy.NamespaceID, who tenancy.Principal, k requestKind, r *http.Request) {
	s.requests.Add(string(ns), struct{}{}, requestName{auditPrincipal(who), k}, func() *op.Audit { return auditOf(r, who, k, s.remote(r)) })
}

// recordRequests builds the op that records rows and returns a function that proposes it on the namespace's
// home shard. The function may be called again after an error, because Apply recognises the repeat by the
// op's request id.
func (s *Server) recordRequests(namespace string, rows []requestRow) func(context.Context) error {
	o := requestsOp(rows)
	return func(ctx context.Context) error {
		if err := s.proposeRequests(ctx, tenancy.NamespaceID(namespace), o); err != nil {
			return fmt.Errorf("namespace %s: %w", namespace, err)
		}
		return nil
	}
}

func requestsOp(rows []requestRow) *op.RecordRequests {
	o := &op.RecordRequests{Meta: &op.Meta{Principal: "audit", RequestId: newRequestID()}}
	for _, row := range rows {
		one := &op.Request{Principal: row.Kind.principal, Audit: row.Value, Count: row.Count}
		if row.LeftOut {
			one.Audit = &op.Audit{Method: "any", Path: tally.LeftOut, Status: http.StatusTooManyRequests}
		}
		o.Requests = append(o.Requests, one)
	}
	return o
}

func newRequestID() []byte {
	id := make([]byte, 16)
	rand.Read(id) // never fails, see crypto/rand
	return id
}

func (s *Server) proposeRequests(ctx context.Context, ns tenancy.NamespaceID, o *op.RecordRequests) error {
	leave, err := s.cfg.Host.Visit(ns)
	if err != nil {
		return err
	}
	defer leave()
	shards, err := router.Open(s.cfg.Host, ns)
	if err != nil {
		return err
	}
	_, _, err = cell.Propose[*op.RecordRequestsResult](ctx, shards.Home(), o)
	return err
}

// Close records the pending requests and returns when they are recorded or ctx ends. The handler must not be
// called any more, and the host must still be open.
func (s *Server) Close(ctx context.Context) { s.requests.Close(ctx) }
