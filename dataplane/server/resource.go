package server

import (
	"net/http"
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

// Clients declare resources for their namespace: budgets, providers, rules. The code here lists, creates,
// reads, replaces and deletes all kinds. The file of each kind has a resource value with its differences; a
// few kinds wrap or replace single handlers.

// resource describes one kind of resource: Req is the request body, Resp the answer.
type resource[Req, Resp any] struct {
	kind state.ResourceKind
	path string // path of the list, below /api/v1
	item string // path of one resource, below path, with wildcards
	one  string // name in messages
	many string

	read, write tenancy.Permission

	// prefix begins the ids that the server assigns. It is empty if clients name their resources; then a PUT
	// may create one too.
	prefix string
	// named returns the name in an item's path.
	named func(r *http.Request) string
	// nameOf returns the name in a body. nameIn is the body's field with the last part of the name. nameOf is
	// nil if there is a prefix.
	nameOf func(body *Req) string
	nameIn string
	// from builds the op from a body. was is the replaced resource, or nil.
	from func(f *convert.Faults, body *Req, was *state.Resource, nowNs int64) *op.PutResource
	// to converts a resource for clients. It may read derived data, such as a budget's account. It is nil if
	// across is set.
	to func(home *cell.Cell, r *state.Resource) (Resp, error)
	// queue returns the one queue that a resource concerns, or "".
	queue func(r *state.Resource) string

	// The fields below may be nil.

	// complete fills in the fields that a PUT's body omits because its path has them.
	complete func(body *Req, r *http.Request)
	// across replaces to if the derived data lie on several shards.
	across func(shards router.Shards, r *state.Resource) (Resp, error)
	// conceal removes the fields that only callers who may declare the resource may see.
	conceal func(q *request, shown *Resp)
	// may refuses a caller who may not declare a resource with the content of r, replace it or delete it. It
	// is called only for a resource that concerns no single queue.
	may func(q *request, r *state.Resource) error
	// at returns the shard with the derived data of a resource; nil means the home shard.
	at func(q *request, r *state.Resource) *cell.Cell
}

// cellOf returns the shard with the derived data of a resource.
func (n *resource[Req, Resp]) cellOf(q *request, rec *state.Resource) *cell.Cell {
	if n.at == nil {
		return q.shards.Home()
	}
	return n.at(q, rec)
}

// show returns a resource as the caller sees it, as fresh as the request asks. The handler must have waited
// for the home shard before. Derived data from across may be older, because across reads the shards of this
// node as they are.
func (n *resource[Req, Resp]) show(s *Server, r *http.Request, q *request, rec *state.Resource) (shown Resp, err error) {
	c := n.cellOf(q, rec)
	if c != q.shards.Home() {
		if err := s.awaitState(r, q, c); err != nil {
			return shown, err
		}
	}
	return n.shown(q, rec)
}

// routes returns the routes of the resource.
func (n *resource[Req, Resp]) routes(s *Server) []serve.Route {
	list, item := "/api/v1"+n.path, "/api/v1"+n.path+n.item
	return []serve.Route{
		{Method: "GET", Path: list, Permission: n.read, Query: read,
			Summary: "List " + n.many, Response: []Resp{}, Handler: func(w http.ResponseWriter, r *http.Request) error { return n.list(s, w, r) }},
		{Method: "POST", Path: list, Permission: n.write,
			Summary: "Create " + n.an(), Request: *new(Req), Response: *new(Resp), Status: http.StatusCreated,
			Handler: func(w http.ResponseWriter, r *http.Request) error { return n.create(s, w, r) }},
		{Method: "GET", Path: item, Permission: n.read, Query: read,
			Summary: "Get " + n.an(), Response: *new(Resp), Handler: func(w http.ResponseWriter, r *http.Request) error { return n.get(s, w, r) }},
		{Method: "PUT", Path: item, Permission: n.write, Conditions: versioned,
			Summary: "Replace " + n.an(), Request: *new(Req), Response: *new(Resp),
			Handler: func(w http.ResponseWriter, r *http.Request) error { return n.replace(s, w, r) }},
		{Method: "DELETE", Path: item, Permission: n.write, Conditions: versioned,
			Summary: "Delete " + n.an(), Response: api.Status{}, Handler: func(w http.ResponseWriter, r *http.Request) error { return n.delete(s, w, r) }},
	}
}

func (n *resource[Req, Resp]) list(s *Server, w http.ResponseWriter, r *http.Request) error {
	q, home, err := s.atHome(r)
	if err != nil {
		return err
	}
	all := []Resp{}
	for _, rec := range home.State().ResourceIndex().Resources(n.kind) {
		if !n.visible(&q, rec) {
			continue
		}
		shown, err := n.show(s, r, &q, rec)
		if err != nil {
			return err
		}
		all = append(all, shown)
	}
	return serve.WriteJSON(w, http.StatusOK, all)
}

func (n *resource[Req, Resp]) create(s *Server, w http.ResponseWriter, r *http.Request) error {
	var body Req
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	id := q.shards.Home().NewID("")
	name := n.prefix + id.String()[len(job.IDPrefix):]
	if n.prefix == "" {
		name = n.nameOf(&body)
	}
	return n.put(s, w, r, &q, &body, id, name, nil, http.StatusCreated)
}

func (n *resource[Req, Resp]) get(s *Server, w http.ResponseWriter, r *http.Request) error {
	q, _, err := s.atHome(r)
	if err != nil {
		return err
	}
	rec, err := n.find(&q, r)
	if err != nil {
		return err
	}
	shown, err := n.show(s, r, &q, rec)
	if err != nil {
		return err
	}
	return writeVersion(w, http.StatusOK, rec.Version, shown)
}

// replace replaces a resource. If clients name the resources, it also creates one.
func (n *resource[Req, Resp]) replace(s *Server, w http.ResponseWriter, r *http.Request) error {
	var body Req
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	if err := s.awaitPresent(r, &q, q.shards.Home()); err != nil {
		return err
	}
	was, err := n.find(&q, r)
	if err != nil && (n.prefix != "" || api.CodeOf(err) != api.NotFound) {
		return err
	}
	status := http.StatusOK
	if was == nil {
		if len(r.Header.Values(serve.IfMatch)) > 0 {
			return api.Errorf(api.PreconditionFailed, "there is no %s %s, so it has no version: leave If-Match out to create it", n.one, text.Quote(n.named(r)))
		}
		status = http.StatusCreated
	}
	if n.complete != nil {
		n.complete(&body, r)
	}
	if err := n.sameName(&body, n.named(r)); err != nil {
		return err
	}
	return n.put(s, w, r, &q, &body, q.shards.Home().NewID(""), n.named(r), was, status)
}

// sameName refuses a PUT whose body and path give different names, because a name cannot be changed and
// nobody knows which of the two is meant. A body without a name takes the path's.
func (n *resource[Req, Resp]) sameName(body *Req, named string) error {
	var f convert.Faults
	if n.prefix == "" {
		if given := n.nameOf(body); given != "" && given != named {
			f.Invalid(n.nameIn, "names the %s %s, but the path names %s: make them the same", n.one, text.Quote(given), text.Quote(named))
		}
	}
	return f.Err()
}

// put declares a resource with the content of a body. was is the replaced resource; if it is nil, the
// resource must not exist.
func (n *resource[Req, Resp]) put(s *Server, w http.ResponseWriter, r *http.Request, q *request, body *Req, id job.ID, name string, was *state.Resource, status int) error {
	var f convert.Faults
	home := q.shards.Home()
	o := n.from(&f, body, was, home.NowNs())
	if err := f.Err(); err != nil {
		return err
	}
	o.Resource.Kind, o.Resource.Name, o.Resource.Shards = n.kind, name, uint32(q.shards.Count())
	o.Meta, o.Create = q.meta, was == nil
	o.Meta.Ids = [][]byte{id[:]}
	if was != nil {
		// A caller who may not declare the present content may not replace it either.
		if err := n.allow(q, was); err != nil {
			return err
		}
		var err error
		if o.IfVersion, err = ifMatch(r, was.Version); err != nil {
			return err
		}
	}
	if err := n.allow(q, o.Resource); err != nil {
		return err
	}
	q.answers(status)
	result, err := commit[*op.PutResourceResult](s, w, r, q, home, o)
	if err != nil {
		return err
	}
	shown, err := n.shown(q, result.Resource)
	if err != nil {
		return err
	}
	return writeVersion(w, status, result.Resource.Version, shown)
}

func (n *resource[Req, Resp]) delete(s *Server, w http.ResponseWriter, r *http.Request) error {
	q, was, err := n.mine(s, r)
	if err != nil {
		return err
	}
	o := &op.DeleteResource{Meta: q.meta, Kind: n.kind, Name: was.Name, Shards: uint32(q.shards.Count())}
	if o.IfVersion, err = ifMatch(r, was.Version); err != nil {
		return err
	}
	if _, err := commit[*op.DeleteResourceResult](s, w, r, &q, q.shards.Home(), o); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}

// shown returns a resource as the caller sees it, from the shards' present data.
func (n *resource[Req, Resp]) shown(q *request, rec *state.Resource) (shown Resp, err error) {
	if n.across != nil {
		shown, err = n.across(q.shards, rec)
	} else {
		shown, err = n.to(n.cellOf(q, rec), rec)
	}
	if n.conceal != nil && n.allow(q, rec) != nil {
		n.conceal(q, &shown)
	}
	return shown, err
}

// mine returns the resource in the path as it is now, if the caller may change it.
func (n *resource[Req, Resp]) mine(s *Server, r *http.Request) (q request, rec *state.Resource, err error) {
	if q, err = s.begin(r, nil); err != nil {
		return q, nil, err
	}
	if err = s.awaitPresent(r, &q, q.shards.Home()); err != nil {
		return q, nil, err
	}
	if rec, err = n.find(&q, r); err != nil {
		return q, nil, err
	}
	return q, rec, n.allow(&q, rec)
}

// find returns the resource in the path. It answers NOT_FOUND for a resource that the caller may not see.
func (n *resource[Req, Resp]) find(q *request, r *http.Request) (*state.Resource, error) {
	name := n.named(r)
	rec := q.shards.Home().State().ResourceIndex().Resource(n.kind, name)
	if rec == nil || !n.visible(q, rec) {
		return nil, api.Errorf(api.NotFound, "there is no %s %s", n.one, text.Quote(name))
	}
	return rec, nil
}

// visible reports whether the caller may see a resource: the caller's scope must cover the resource's queue.
// Every caller with the right to read the kind may see resources of the whole namespace.
func (n *resource[Req, Resp]) visible(q *request, rec *state.Resource) bool {
	queue := n.queue(rec)
	return queue == "" || q.who.Covers(queue)
}

// allow checks the right to declare a resource. A resource that concerns no single queue requires a caller
// without a queue scope.
func (n *resource[Req, Resp]) allow(q *request, rec *state.Resource) error {
	queue := n.queue(rec)
	if err := q.allow(n.write, queue); err != nil || queue != "" {
		return err
	}
	if err := n.everywhere(q); err != nil || n.may == nil {
		return err
	}
	return n.may(q, rec)
}

// an returns the name with its article, such as "an alert rule".
func (n *resource[Req, Resp]) an() string {
	if strings.ContainsRune("aeio", rune(n.one[0])) {
		return "an " + n.one
	}
	return "a " + n.one
}

// everywhere refuses callers with a queue scope.
func (n *resource[Req, Resp]) everywhere(q *request) error {
	if len(q.who.QueueScope) > 0 {
		return api.Errorf(api.Forbidden, "%s is about the whole namespace; %s covers only %v", n.an(), q.who, q.who.QueueScope)
	}
	return nil
}

// inPath returns the name of a resource whose path has one wildcard, {id}.
func inPath(r *http.Request) string { return r.PathValue("id") }
