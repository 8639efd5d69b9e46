package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// A limit rule is for a fairness key of a queue, or for every key of it; its id is
// queue/key. One for the whole queue has the queue's name for an id: it is no resource,
// but those settings of the queue that limit it, which have routes of their own as well.

// limitRules are the rules that have a key.
var limitRules = noun[api.LimitRuleRequest, api.LimitRule]{
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

// limitRuleRoutes are the rows of the routes table.
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

// listLimitRules lists the rules of keys and those of whole queues, by id.
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
	for _, rec := range q.shards.Home().State().Book().Resources(limitRules.kind) {
		if limitRules.visible(&q, rec) {
			all = append(all, convert.ToLimitRule(rec))
		}
	}
	slices.SortFunc(all, func(a, b api.LimitRule) int { return strings.Compare(a.ID, b.ID) })
	return serve.WriteJSON(w, http.StatusOK, all)
}

// queueRules are the rules of a shard's whole queues.
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

// createLimitRule makes a rule where there is none, of a key or of a queue.
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
	rule, limits, err := queueRule(at, name)
	if err != nil {
		return err
	}
	if !limits {
		return noQueueRule(name)
	}
	return serve.WriteJSON(w, http.StatusOK, rule)
}

func noQueueRule(name string) error {
	return api.Errorf(api.NotFound, "there is no limit rule %s; that of a key has the id queue/key, with the slash escaped", convert.Excerpt(name))
}

// queueRule is the rule of a whole queue, and whether there is one.
func queueRule(c *cell.Cell, name string) (api.LimitRule, bool, error) {
	v := c.State().Snapshot()
	defer v.Close()
	q, err := v.Queue(name)
	if err != nil {
		return api.LimitRule{}, false, err
	}
	rule, limits := convert.ToQueueRule(q)
	return rule, limits, nil
}

func (s *Server) putQueueRule(w http.ResponseWriter, r *http.Request) error {
	var body api.LimitRuleRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	if name := inPath(r); body.Queue != name || body.Key != "" {
		return api.Errorf(api.ValidationError, "the path names the rule of queue %s, the body another: give queue %s and no key", convert.Excerpt(name), convert.Excerpt(name))
	}
	return s.setQueueRule(w, r, &q, &body, false)
}

// setQueueRule makes a queue's limits what a body says and answers them.
func (s *Server) setQueueRule(w http.ResponseWriter, r *http.Request, q *request, body *api.LimitRuleRequest, create bool) error {
	if err := job.CheckQueueName(body.Queue); err != nil {
		return api.Errorf(api.ValidationError, "queue %w", err)
	}
	if err := q.allow(limitRules.write, body.Queue); err != nil {
		return err
	}
	if err := noRuleVersion(r, body.Queue); err != nil {
		return err
	}
	at := q.shards.Of(body.Queue)
	had, err := s.presentQueueRule(r, q, at, body.Queue)
	if err != nil {
		return err
	}
	// The repeat of a request that made it is no second one.
	if had && create && q.meta.GetIdempotency() == nil {
		return api.Errorf(api.Conflict, "limit rule %q exists already: replace it", body.Queue)
	}
	var f convert.Faults
	o := &op.SetQueue{Meta: q.meta, Queue: body.Queue}
	convert.FromQueueRule(&f, body, o)
	if err := f.Err(); err != nil {
		return err
	}
	status := http.StatusOK
	if !had {
		status = http.StatusCreated
	}
	q.answers(status)
	if _, err := commit[*op.SetQueueResult](s, w, r, q, at, o); err != nil {
		return err
	}
	rule, _, err := queueRule(at, body.Queue)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, status, rule)
}

// noRuleVersion refuses a write that insists on a version of a queue's rule.
func noRuleVersion(r *http.Request, queue string) error {
	return unversioned(r, "the limit rule of a whole queue has no version that If-Match could insist on: leave it out, or PUT /queues/"+queue+", which takes it")
}

// presentQueueRule says whether a queue has limits, after every write acknowledged
// before.
func (s *Server) presentQueueRule(r *http.Request, q *request, at *cell.Cell, name string) (bool, error) {
	if err := s.awaitPresent(r, q, at); err != nil {
		return false, err
	}
	_, had, err := queueRule(at, name)
	return had, err
}

// deleteQueueRule lifts a queue's limits.
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
	if err := noRuleVersion(r, name); err != nil {
		return err
	}
	at := q.shards.Of(name)
	had, err := s.presentQueueRule(r, &q, at, name)
	if err != nil {
		return err
	}
	if !had {
		return noQueueRule(name)
	}
	o := &op.SetQueue{Meta: q.meta, Queue: name}
	convert.FromQueueRule(&convert.Faults{}, &api.LimitRuleRequest{Queue: name}, o)
	if _, err := commit[*op.SetQueueResult](s, w, r, &q, at, o); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}
