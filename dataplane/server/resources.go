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

// Resources are what a client declares for its namespace: budgets, providers, rules.
// They are listed, created, read, replaced and deleted in the same way, so that this
// is written once; what is particular to a noun is in its own file, as a noun.

// noun is one kind of resource as clients see it: Req is what they send, Resp what
// they get.
type noun[Req, Resp any] struct {
	kind state.ResourceKind
	path string // of the list, below /api/v1
	item string // of one, below path: its wildcards
	one  string // its name for people
	many string

	read, write tenancy.Permission

	// prefix begins the ids that the server gives; empty where clients name their
	// resources, which may then be made by a PUT as well.
	prefix string
	// named is the name in an item's path.
	named func(r *http.Request) string
	// nameOf is the name that a body gives, with the field nameIn at its end; nil where
	// there is a prefix.
	nameOf func(body *Req) string
	nameIn string
	// from makes the content a body describes. was is what it replaces, or nil.
	from func(f *convert.Faults, body *Req, was *state.Resource, nowNs int64) *op.PutResource
	// to is what clients see. It may look at what has come of the resource.
	to func(home *cell.Cell, r *state.Resource) (Resp, error)
	// queue is the queue that one is about; empty where it is about more than one.
	queue func(r *state.Resource) string

	// The rest may be nil.

	// complete fills in what a PUT's body leaves to its path.
	complete func(body *Req, r *http.Request)
	// across is to where what has come of the resource lies on all shards.
	across func(shards router.Shards, r *state.Resource) (Resp, error)
	// conceal takes out what nobody sees who may not declare one.
	conceal func(q *request, shown *Resp)
	// may refuses to declare one that is, or is to be, like this.
	may func(q *request, r *state.Resource) error
	// at is the shard that knows what has come of one; nil: the home shard.
	at func(q *request, r *state.Resource) *cell.Cell
}

// cellOf is the shard that knows what has come of one.
func (n *noun[Req, Resp]) cellOf(q *request, rec *state.Resource) *cell.Cell {
	if n.at == nil {
		return q.shards.Home()
	}
	return n.at(q, rec)
}

// show is one as clients see it, as fresh as the request asks.
func (n *noun[Req, Resp]) show(s *Server, r *http.Request, q *request, rec *state.Resource) (shown Resp, err error) {
	c := n.cellOf(q, rec)
	if c != q.shards.Home() {
		if err := s.awaitState(r, q, c); err != nil {
			return shown, err
		}
	}
	return n.shown(q, rec)
}

// routes are the rows of the routes table.
func (n *noun[Req, Resp]) routes(s *Server) []serve.Route {
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

func (n *noun[Req, Resp]) list(s *Server, w http.ResponseWriter, r *http.Request) error {
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

func (n *noun[Req, Resp]) create(s *Server, w http.ResponseWriter, r *http.Request) error {
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

func (n *noun[Req, Resp]) get(s *Server, w http.ResponseWriter, r *http.Request) error {
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

// replace replaces one, and where clients name them makes it if it is not there.
func (n *noun[Req, Resp]) replace(s *Server, w http.ResponseWriter, r *http.Request) error {
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

// sameName refuses a PUT's body that gives another name than its path: a name cannot be
// changed, and which of the two is meant nobody knows. One without a name may leave it to
// the path.
func (n *noun[Req, Resp]) sameName(body *Req, named string) error {
	var f convert.Faults
	if n.prefix == "" {
		if given := n.nameOf(body); given != "" && given != named {
			f.Invalid(n.nameIn, "makes it the %s %s, the path names %s: make them the same", n.one, text.Quote(given), text.Quote(named))
		}
	}
	return f.Err()
}

// put declares what a body describes under a name. was is what it replaces, nil for
// what must not be there yet.
func (n *noun[Req, Resp]) put(s *Server, w http.ResponseWriter, r *http.Request, q *request, body *Req, id job.ID, name string, was *state.Resource, status int) error {
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
		// Who may not declare what is there may not make something else of it, either.
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

func (n *noun[Req, Resp]) delete(s *Server, w http.ResponseWriter, r *http.Request) error {
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

// shown is a resource as the caller sees it, from what the shards have now.
func (n *noun[Req, Resp]) shown(q *request, rec *state.Resource) (shown Resp, err error) {
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

// mine is the resource in the path as it is now, which the caller may change.
func (n *noun[Req, Resp]) mine(s *Server, r *http.Request) (q request, rec *state.Resource, err error) {
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

// find is the resource in the path. One that the caller may not see is none.
func (n *noun[Req, Resp]) find(q *request, r *http.Request) (*state.Resource, error) {
	name := n.named(r)
	rec := q.shards.Home().State().ResourceIndex().Resource(n.kind, name)
	if rec == nil || !n.visible(q, rec) {
		return nil, api.Errorf(api.NotFound, "there is no %s %s", n.one, text.Quote(name))
	}
	return rec, nil
}

// visible says whether the caller may see one: what is about one queue is for those
// whose scope covers it, what is about the namespace for everybody.
func (n *noun[Req, Resp]) visible(q *request, rec *state.Resource) bool {
	queue := n.queue(rec)
	return queue == "" || q.who.Covers(queue)
}

// allow asks for the right to declare one: what is about more than one queue only
// those may declare whose scope is every queue.
func (n *noun[Req, Resp]) allow(q *request, rec *state.Resource) error {
	queue := n.queue(rec)
	if err := q.allow(n.write, queue); err != nil || queue != "" {
		return err
	}
	if err := n.everywhere(q); err != nil || n.may == nil {
		return err
	}
	return n.may(q, rec)
}

// an is the noun with its article: an alert rule.
func (n *noun[Req, Resp]) an() string {
	if strings.ContainsRune("aeio", rune(n.one[0])) {
		return "an " + n.one
	}
	return "a " + n.one
}

// everywhere refuses those whose scope is not every queue.
func (n *noun[Req, Resp]) everywhere(q *request) error {
	if len(q.who.QueueScope) > 0 {
		return api.Errorf(api.Forbidden, "%s is about the whole namespace; %s covers only %v", n.an(), q.who, q.who.QueueScope)
	}
	return nil
}

// inPath is the name of a resource whose path has one wildcard, {id}.
func inPath(r *http.Request) string { return r.PathValue("id") }
