package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// namespace returns the namespace in the path, named by its id or by its name in the caller's organisation.
// An operator must name the id. A namespace for which the caller lacks the permission is reported as not
// found.
func (s *Server) namespace(q request, what tenancy.Permission) (fleet.Namespace, error) {
	idOrName := q.PathValue("ns")
	org := q.who.Org
	if q.operates() {
		org = "" // a name identifies a namespace only within an organisation
	}
	ns, err := s.store.Namespace(q.Context(), org, idOrName)
	if err != nil && api.CodeOf(err) != api.NotFound {
		return fleet.Namespace{}, err
	}
	if err != nil && q.operates() && !strings.HasPrefix(idOrName, namespacePrefix) {
		return fleet.Namespace{}, api.Errorf(api.NotFound, "there is no namespace %s: operators name a namespace by its id, which begins with %s", text.Quote(idOrName), namespacePrefix)
	}
	if err != nil || !q.allowed(what, ns.Org) {
		return fleet.Namespace{}, api.Errorf(api.NotFound, "there is no namespace %s", text.Quote(idOrName))
	}
	return ns, nil
}

// createNamespaceBody has the fields of api.CreateNamespaceRequest and the documented fields that are not
// implemented yet.
type createNamespaceBody struct {
	Name string     `json:"name"`
	Spec *specInput `json:"spec"`
}

type specInput struct {
	Region             string          `json:"region"`
	Tier               string          `json:"tier"`
	Replicas           *int            `json:"replicas"`
	Shards             *int            `json:"shards"`
	DeletionProtection *bool           `json:"deletion_protection"`
	Limits             json.RawMessage `json:"limits"`
	MinWarm            json.RawMessage `json:"min_warm"`
}

// The tiers of a namespace.
const (
	sharedTier    = "shared"
	dedicatedTier = "dedicated"
)

// spec applies the defaults of a namespace's spec and checks every field except the region.
func (f *faults) spec(in *specInput) api.NamespaceSpec {
	out := api.NamespaceSpec{Tier: sharedTier, Replicas: 1, Shards: 1}
	if in == nil {
		return out
	}
	out.Region, out.DeletionProtection = in.Region, in.DeletionProtection != nil && *in.DeletionProtection
	switch in.Tier {
	case "", sharedTier:
	case dedicatedTier:
		f.unsupported("spec.tier", "%q is not built yet: use %q, or leave it out", dedicatedTier, sharedTier)
	default:
		f.add("spec.tier", "%s is not a tier: use %q", text.Quote(in.Tier), sharedTier)
	}
	if in.Replicas != nil {
		f.replicas(*in.Replicas)
		out.Replicas = *in.Replicas
	}
	switch {
	case in.Shards == nil || *in.Shards == 1:
	case *in.Shards > 1 && *in.Shards <= store.MaxShards:
		f.unsupported("spec.shards", "above 1 is not built yet: use 1, or leave it out")
	default:
		f.add("spec.shards", "is %d: it takes 1 to %d", *in.Shards, store.MaxShards)
	}
	f.unbuilt(in)
	return out
}

// replicas checks a number of replicas.
func (f *faults) replicas(n int) {
	if n != 1 && n != 3 && n != 5 {
		f.add("spec.replicas", "is %d: it takes 1, 3 or 5", n)
	}
}

// updateNamespaceBody has the fields of api.UpdateNamespaceRequest and the documented fields that are not
// implemented yet.
type updateNamespaceBody struct {
	Spec *specInput `json:"spec"`
}

// specChange sets the deletion protection and the replicas that an update asks for in o; nil = unchanged. It accepts
// region, tier and shards only if they are left out or have their present value, so that a client may send
// back a spec it has read with one field changed.
func (f *faults) specChange(o *store.UpdateNamespace, in *specInput, now fleet.Spec) {
	if in == nil {
		return
	}
	text := func(field, wanted, is string) {
		if wanted != "" && wanted != is {
			f.unsupported(field, "is %s and cannot change: send that, or leave it out", is)
		}
	}
	text("spec.region", in.Region, now.Region)
	text("spec.tier", in.Tier, now.Tier)
	if in.Shards != nil && *in.Shards != now.Shards {
		f.unsupported("spec.shards", "is %d and cannot change: send that, or leave it out", now.Shards)
	}
	if in.Replicas != nil {
		f.replicas(*in.Replicas)
		o.Replicas = new(uint32(*in.Replicas))
	}
	f.unbuilt(in)
	o.DeletionProtection = in.DeletionProtection
}

// unbuilt refuses the documented fields of a spec that are not implemented yet.
func (f *faults) unbuilt(in *specInput) {
	if asks(in.Limits) {
		f.unsupported("spec.limits", "is not built yet: leave it out")
	}
	if asks(in.MinWarm) {
		f.unsupported("spec.min_warm", "is not built yet: leave it out")
	}
}

// region checks a region, or chooses the cloud's first if region is empty. The regions of a cloud are the
// regions of its hosts, in the order of registration. An unknown region is added to f. Without any host, an
// empty region is refused with STATE_CONFLICT.
func (s *Server) region(q request, f *faults, region string) (string, error) {
	hosts, err := s.store.Hosts(q.Context())
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(hosts, func(a, b fleet.Host) int { return int(min(max(a.CreatedNs-b.CreatedNs, -1), 1)) })
	var regions []string
	for _, h := range hosts {
		if h.Kind == keyring.Host && !slices.Contains(regions, h.Region) {
			regions = append(regions, h.Region)
		}
	}
	switch {
	case region == "" && len(regions) == 0:
		return "", api.Errorf(api.StateConflict, "this cloud has no region, because it has no host yet: register a host first")
	case region == "":
		return regions[0], nil
	case !slices.Contains(regions, region):
		f.add("spec.region", "%s is not a region of this cloud: use one of %q, or leave it out", text.Quote(region), regions)
	}
	return region, nil
}

func (s *Server) createNamespace(w http.ResponseWriter, r *http.Request) error {
	var body createNamespaceBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.NamespaceManage)
	if err != nil {
		return err
	}
	var f faults
	f.name(body.Name)
	spec := f.spec(body.Spec)
	if spec.Region, err = s.region(q, &f, spec.Region); err != nil {
		return err
	}
	if err := f.err(); err != nil {
		return err
	}
	id, err := s.newID(namespacePrefix)
	if err != nil {
		return err
	}
	operation, err := s.newID(operationPrefix)
	if err != nil {
		return err
	}
	incarnations, err := store.NewIncarnations(s.cfg.Rand, spec.Shards)
	if err != nil {
		return err
	}
	made, err := propose[*store.CreateNamespaceResult](r.Context(), s, &store.CreateNamespace{
		Meta: q.meta, Id: id, Org: string(org.ID), Name: body.Name, Spec: fromSpec(spec), OperationId: operation,
		Incarnations: incarnations,
	})
	if err != nil {
		return err
	}
	return s.writeOperation(w, r, made.OperationId)
}

func (s *Server) listNamespaces(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.NamespaceRead)
	if err != nil {
		return err
	}
	list := "namespaces of " + string(org.ID)
	limit, after, err := pageOf(r, list)
	if err != nil {
		return err
	}
	found, err := s.store.Namespaces(r.Context(), org.ID, tenancy.NamespaceID(after), limit+1)
	if err != nil {
		return err
	}
	return writePage(w, list, limit, found, func(n fleet.Namespace) string { return string(n.ID) }, s.toNamespace)
}

func (s *Server) getNamespace(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	ns, err := s.namespace(q, tenancy.NamespaceRead)
	if err != nil {
		return err
	}
	return writeResource(w, http.StatusOK, ns.Version, s.toNamespace(ns))
}

func (s *Server) updateNamespace(w http.ResponseWriter, r *http.Request) error {
	var body updateNamespaceBody
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	ns, err := s.namespace(q, tenancy.NamespaceManage)
	if err != nil {
		return err
	}
	o := &store.UpdateNamespace{Meta: q.meta, Id: string(ns.ID)}
	var f faults
	f.specChange(o, body.Spec, ns.Spec)
	if err := f.err(); err != nil {
		return err
	}
	if o.ExpectVersion, err = expected(r, ns.Version); err != nil {
		return err
	}
	if _, err = propose[any](r.Context(), s, o); err != nil {
		return err
	}
	if ns, err = s.store.Namespace(r.Context(), ns.Org, string(ns.ID)); err != nil {
		return err
	}
	return writeResource(w, http.StatusOK, ns.Version, s.toNamespace(ns))
}

func (s *Server) deleteNamespace(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	ns, err := s.namespace(q, tenancy.NamespaceManage)
	if err != nil {
		return err
	}
	version, err := expected(r, ns.Version)
	if err != nil {
		return err
	}
	operation, err := s.newID(operationPrefix)
	if err != nil {
		return err
	}
	begun, err := propose[*store.DeleteNamespaceResult](r.Context(), s, &store.DeleteNamespace{
		Meta: q.meta, Id: string(ns.ID), ExpectVersion: version, OperationId: operation,
	})
	if err != nil {
		return err
	}
	return s.writeOperation(w, r, begun.OperationId)
}

func (s *Server) getEndpoint(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	if _, err := s.namespace(q, tenancy.NamespaceRead); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Endpoint{Endpoint: s.cfg.Endpoint})
}
