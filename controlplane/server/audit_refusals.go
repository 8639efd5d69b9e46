package server

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/serve/tally"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// The server counts refused requests before it records them, because a row of the audit log is stored for 400
// days. Each organisation has its own quota of rows. All callers without a principal share one quota, and all
// operators and fleet credentials share another, so that a flood hides no other organisation's rows. One
// commit writes rows of all quotas.
var refusalBounds = tally.Bounds{
	Kinds: 64, Waiting: 4096,
	Burst: 64, Every: time.Minute, // of each quota: at most 1,440 rows a day besides the burst
	Rows: store.MaxRefusals,
}

// failedAuthentication is the action recorded for a denied request without a principal. Either its
// authentication failed, or memberOnly denied it, because the routes of memberOnly are open and have no
// principal. The route is not recorded, so that strangers cannot choose the text of the log.
const failedAuthentication = "authenticate"

// refusal holds the fields that equal refused requests share.
type refusal struct {
	principal, action string
	code              api.Code
}

// quotaKey names a quota. An organisation has one, operators and fleet credentials share one (org is empty),
// and all callers without a principal share one (known is false).
type quotaKey struct {
	org   tenancy.OrgID
	known bool
}

// refusals counts refused requests until they are recorded. It has one destination, the log of the cloud.
type refusals = tally.Tally[quotaKey, refusal, struct{}]

type refusalRow = tally.Row[quotaKey, refusal, struct{}]

func (s *Server) newRefusals() *refusals {
	return tally.New(tally.Config[quotaKey, refusal, struct{}]{Bounds: refusalBounds, Commit: s.recordRefusals, Logger: s.cfg.Logger})
}

// recordRefusals builds the op that records rows. The batch id makes a repeated proposal harmless.
func (s *Server) recordRefusals(_ string, rows []refusalRow) func(context.Context) error {
	o := &store.RecordRefusals{Meta: &store.Meta{Principal: "audit"}, Batch: "batch_" + rand.Text()}
	for _, row := range rows {
		r := &store.Refusal{Org: string(row.Quota.org), Principal: row.Kind.principal, Action: row.Kind.action, Code: string(row.Kind.code), Count: row.Count}
		if row.LeftOut {
			r.Action, r.Code = tally.LeftOut, string(api.RateLimited)
		}
		o.Refusals = append(o.Refusals, r)
	}
	return func(ctx context.Context) error {
		_, err := store.Propose[any](ctx, s.store, o)
		return err
	}
}

// onRefused counts a refused request: a failure to authenticate, a missing permission, or a write that is
// refused for another reason and whose caller has a principal.
func (s *Server) onRefused(r *http.Request, route *serve.Route, who tenancy.Principal, err error) {
	var e *api.Error
	if route == nil || !errors.As(err, &e) {
		return
	}
	status := e.Code.Status()
	denied := status == http.StatusUnauthorized || status == http.StatusForbidden
	switch {
	case status < 400 || status > 499:
		return // the server failed; it did not refuse the request
	case denied && who.KeyID == "":
		s.countRefusal(quotaKey{}, refusal{action: failedAuthentication, code: e.Code})
		return
	case !denied && (who.KeyID == "" || r.Method == http.MethodGet || r.Method == http.MethodHead):
		return
	}
	org := who.Org
	if org == tenancy.EveryOrg {
		org = ""
	}
	s.countRefusal(quotaKey{org: org, known: true}, refusal{principal: who.KeyID, action: route.Method + " " + route.Path, code: e.Code})
}

func (s *Server) countRefusal(of quotaKey, k refusal) {
	s.refusals.Add("", of, k, func() (none struct{}) { return none })
}

// Close records the pending refused requests. The handler must not be called afterwards, and the store must
// still be open.
func (s *Server) Close(ctx context.Context) { s.refusals.Close(ctx) }
