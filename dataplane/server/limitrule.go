package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// A limit rule with a fairness key limits the jobs of a queue with that key; the key * stands for every key
// without a rule of its own. Such a rule is a resource with the id queue/key. The rule of a whole queue has
// the queue's name as its id. It is a part of the queue's settings, not a resource, but these routes serve it
// too.

// limitRules declares the resource for rules with a fairness key.
var limitRules = resource[api.LimitRuleRequest, api.LimitRule]{
	kind: state.ResourceKind_RESOURCE_KIND_LIMIT_RULE,
	path: "/limit-rules", item: "/{id}", one: "limit rule", many: "limit rules",
	read: tenancy.QueueRead, write: tenancy.QueueManage,
	named:  inPath,
	nameOf: func(body *api.LimitRuleRequest) string { return op.LimitRuleName(body.Queue, body.Key) },
	nameIn: "key",
	from:   convert.FromLimitRule,
	to:     func(_ *cell.Cell, r *state.Resource) (api.LimitRule, error) { return convert.ToLimitRule(r), nil },
	queue:  func(r *state.Resource) string { return r.GetLimitRule().GetQueue() },
}

// limitRuleRoutes returns the routes of rules. They serve rules with a fairness key as resources and rules of
// whole queues as settings.
func (s *Server) limitRuleRoutes() []serve.Route {
	rows := limitRules.routes(s)
	for i := range rows {
		generic := rows[i].Handler
		ofQueue := map[string]func(http.ResponseWriter, *http.Request) error{
			"GET": s.getQueueRule, "PUT": s.putQueueRule, "DELETE": s.deleteQueueRule,
		}[rows[i].Method]
		switch {
		case strings.HasSuffix(rows[i].Path, limitRules.item):
			rows[i].Handler = func(w http.ResponseWriter, r *http.Request) error {
				if strings.Contains(inPath(r), "/") {
					return generic(w, r)
				}
				return ofQueue(w, r)
			}
		case rows[i].Method == "POST":
			rows[i].Handler = s.createLimitRule
		default:
			rows[i].Handler = s.listLimitRules
		}
	}
	return rows
}

// listLimitRules lists the rules that the caller may see, by id.
func (s *Server) listLimitRules(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	if err := s.awaitState(r, &q, q.shards.All()...); err != nil {
		return err
	}
	parts, err := router.Gather(q.shards, queueRules)
	if err != nil {
		return err
	}
	all := []api.LimitRule{}
	for _, rule := range slices.Concat(parts...) {
		if q.who.Covers(rule.Queue) {
			all = append(all, rule)
		}
	}
	for _, rec := range q.shards.Home().State().ResourceIndex().Resources(limitRules.kind) {
		if limitRules.visible(&q, rec) {
			all = append(all, convert.ToLimitRule(rec))
		}
	}
	slices.SortFunc(all, func(a, b api.LimitRule) int { return strings.Compare(a.ID, b.ID) })
	return serve.WriteJSON(w, http.StatusOK, all)
}

// queueRules returns the rules of whole queues on a shard.
func queueRules(c *cell.Cell) (all []api.LimitRule, err error) {
	v := c.State().Snapshot()
	defer v.Close()
	for q, err := range v.Queues() {
		if err != nil {
			return nil, err
		}
		if rule, limits := convert.ToQueueRule(q); limits {
			all = append(all, rule)
		}
	}
	return all, nil
}

// createLimitRule creates a rule of a key or of a queue and refuses if the rule exists.
func (s *Server) createLimitRule(w http.ResponseWriter, r *http.Request) error {
	var body api.LimitRuleRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	if body.Key != "" {
		return limitRules.put(s, w, r, &q, &body, q.shards.Home().NewID(""), limitRules.nameOf(&body), nil, http.StatusCreated)
	}
	return s.setQueueRule(w, r, &q, &body, true)
}

func (s *Server) getQueueRule(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	name := inPath(r)
	if job.CheckQueueName(name) != nil || !q.who.Covers(name) {
		return noQueueRule(name)
	}
	at := q.shards.Of(name)
	if err := s.awaitState(r, &q, at); err != nil {
		return err
	}
	rule, version, err := queueRule(at, name)
	if err != nil {
		return err
	}
	if version == 0 {
		return noQueueRule(name)
	}
	return writeVersion(w, http.StatusOK, version, rule)
}

func noQueueRule(name string) error {
	return api.Errorf(api.NotFound, "there is no limit rule %s; the id of a rule for a key is queue/key, with the slash escaped", text.Quote(name))
}

// queueRule returns the rule of a whole queue and the queue's version. The version is 0 if the queue has no
// rule.
func queueRule(c *cell.Cell, name string) (rule api.LimitRule, version uint64, err error) {
	q, err := queueRecord(c, name)
	if err != nil {
		return rule, 0, err
	}
	rule, limits := convert.ToQueueRule(q)
	if limits {
		version, err = op.QueueVersion(q)
	}
	return rule, version, err
}

func (s *Server) putQueueRule(w http.ResponseWriter, r *http.Request) error {
	var body api.LimitRuleRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	if name := inPath(r); body.Queue != name || body.Key != "" {
		return api.Errorf(api.ValidationError, "the path names the rule of queue %s, the body another: give queue %s and no key", text.Quote(name), text.Quote(name))
	}
	return s.setQueueRule(w, r, &q, &body, false)
}

// setQueueRule replaces a queue's limits by the limits in a body and answers with the rule. If create is set
// and the queue has a rule, the error is CONFLICT, unless the request repeats the one that created the rule.
func (s *Server) setQueueRule(w http.ResponseWriter, r *http.Request, q *request, body *api.LimitRuleRequest, create bool) error {
	if err := job.CheckQueueName(body.Queue); err != nil {
		return api.Errorf(api.ValidationError, "queue %w", err)
	}
	if err := q.allow(limitRules.write, body.Queue); err != nil {
		return err
	}
	at := q.shards.Of(body.Queue)
	present, err := s.presentQueueRule(r, q, at, body.Queue)
	if err != nil {
		return err
	}
	var f convert.Faults
	o := &op.SetQueue{Meta: q.meta, Queue: body.Queue}
	convert.FromQueueRule(&f, body, o)
	if err := f.Err(); err != nil {
		return err
	}
	status := http.StatusOK
	had, insists := present != 0, len(r.Header.Values(serve.IfMatch)) > 0
	if create || !had && !insists {
		status = http.StatusCreated
	}
	var otherwise error
	if create {
		otherwise, err = ruleToCreate(q, at, o)
	} else {
		otherwise, err = s.ruleToReplace(r, q, at, o, had)
	}
	if err != nil {
		return err
	}
	q.answers(status)
	written, err := s.commitQueueRule(w, r, q, at, o, otherwise)
	if err != nil {
		return err
	}
	if err := s.awaitOwn(r.Context(), q, written); err != nil {
		return err
	}
	found, err := queueRecord(at, body.Queue)
	if err != nil {
		return err
	}
	if found == nil {
		return api.Errorf(api.NotFound, "another client deleted queue %s just after its limits were set", body.Queue)
	}
	version, err := op.QueueVersion(found)
	if err != nil {
		return err
	}
	// A rule without limits does not count as a rule, but the answer still has the queue's version.
	rule, _ := convert.ToQueueRule(found)
	return writeVersion(w, status, version, rule)
}

// ruleToCreate makes an op require the queue as it is now, so that the op replaces no rule that another
// client creates meanwhile. If the queue has a rule, ruleToCreate decides as noneSeen does. otherwise is the
// error for the client if the op finds that the queue has changed.
func ruleToCreate(q *request, at *cell.Cell, o *op.SetQueue) (otherwise, err error) {
	present, err := queueRecord(at, o.Queue)
	if err != nil {
		return nil, err
	}
	if _, limits := convert.ToQueueRule(present); limits {
		otherwise = api.Errorf(api.Conflict, "limit rule %q exists already: replace it", o.Queue)
		o.IfVersion, err = q.noneSeen(otherwise)
		return otherwise, err
	}
	otherwise = api.Errorf(api.Conflict, "another client changed queue %q at the same time: nothing was changed, try again", o.Queue)
	if o.Create = present == nil; !o.Create {
		o.IfVersion, err = op.QueueVersion(present)
	}
	return otherwise, err
}

// ruleToReplace makes an op require the version in If-Match. had is whether the queue has a rule. If If-Match
// requires a rule and the queue has none, otherwise is the error for the client; in all other cases it is
// nil.
func (s *Server) ruleToReplace(r *http.Request, q *request, at *cell.Cell, o *op.SetQueue, had bool) (otherwise, err error) {
	missing := api.Errorf(api.PreconditionFailed, "there is no limit rule %s, so it has no version: leave If-Match out to create it", o.Queue)
	o.IfVersion, err = s.queueMatch(r, q, at, o.Queue, missing)
	if err == nil && len(r.Header.Values(serve.IfMatch)) > 0 && !had && o.IfVersion == 0 { // If-Match: * requires any rule
		o.IfVersion, err = q.noneSeen(missing)
	}
	if o.IfVersion == op.NoVersion {
		otherwise = missing
	}
	return otherwise, err
}

// commitQueueRule commits a change of a queue's limits and returns its position. It replaces a PRECONDITION_FAILED
// of the op by otherwise, unless otherwise is nil. A repeat with the Idempotency-Key of an earlier request gets
// the result of that request.
func (s *Server) commitQueueRule(w http.ResponseWriter, r *http.Request, q *request, at *cell.Cell, o *op.SetQueue, otherwise error) (written position, err error) {
	_, written, err = proposeOnce[*op.SetQueueResult](s, r, q, at, o)
	if otherwise != nil && api.CodeOf(err) == api.PreconditionFailed {
		return written, otherwise
	}
	if err == nil {
		setIndex(w, written)
	}
	return written, err
}

// presentQueueRule returns the version of a queue's rule, or 0 if the queue has no rule. It first waits until
// this node has every write acknowledged before the request.
func (s *Server) presentQueueRule(r *http.Request, q *request, at *cell.Cell, name string) (uint64, error) {
	if err := s.awaitPresent(r, q, at); err != nil {
		return 0, err
	}
	_, version, err := queueRule(at, name)
	return version, err
}

// deleteQueueRule removes a queue's limits.
func (s *Server) deleteQueueRule(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	name := inPath(r)
	if job.CheckQueueName(name) != nil || !q.who.Covers(name) {
		return noQueueRule(name)
	}
	if err := q.allow(limitRules.write, name); err != nil {
		return err
	}
	at := q.shards.Of(name)
	present, err := s.presentQueueRule(r, &q, at, name)
	if err != nil {
		return err
	}
	paused := false // deleting the rule also removes its pause
	o := &op.SetQueue{Meta: q.meta, Queue: name}
	convert.FromQueueRule(&convert.Faults{}, &api.LimitRuleRequest{Queue: name, Paused: &paused}, o)
	var otherwise error
	if present == 0 {
		otherwise = noQueueRule(name)
		o.IfVersion, err = q.noneSeen(otherwise)
	} else {
		o.IfVersion, err = ifMatch(r, present)
	}
	if err != nil {
		return err
	}
	if _, err := s.commitQueueRule(w, r, &q, at, o, otherwise); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}
