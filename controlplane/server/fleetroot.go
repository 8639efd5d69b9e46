package server

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// DefaultAnnounce is the time for which a new root is announced if the request names none.
const DefaultAnnounce = 24 * time.Hour

// fleetRootRoutes returns the routes of the fleet's roots.
func (s *Server) fleetRootRoutes() []serve.Route {
	const path = cloud + "/fleet-roots"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: tenancy.FleetOperate, Handler: s.listFleetRoots, Query: paging,
			Summary: "List the roots of the fleet's certificates", Description: "There are two during a rotation.", Response: fleetRootPage{}},
		{Method: "POST", Path: path, Permission: tenancy.FleetOperate, Handler: s.rotateFleetRoot,
			Summary: "Rotate the fleet's root", Description: "The new root signs when its announcement is over and every host and gateway with a certificate trusts it. The old one is retired when no certificate of it is in use. If a root is announced already, the answer is that root.",
			Request: api.RotateFleetRootRequest{}, Response: api.FleetRoot{}, Status: http.StatusCreated},
		{Method: "POST", Path: path + "/{root}/switch", Permission: tenancy.FleetOperate, Handler: s.switchFleetRoot,
			Summary: "Let an announced root sign now", Description: "Members that do not trust the root must be named. They cannot reach the control plane until somebody gives them the root.", Request: api.SwitchFleetRootRequest{}, Response: api.Status{}},
		{Method: "DELETE", Path: path + "/{root}", Permission: tenancy.FleetOperate, Handler: s.retireFleetRoot,
			Summary: "Retire a root", Description: "A root that is only announced goes at once, which ends its rotation. A root with certificates in use is refused.", Response: api.Status{}},
	}
}

func (s *Server) listFleetRoots(w http.ResponseWriter, r *http.Request) error {
	const list = "fleet-roots"
	limit, _, err := pageOf(r, list)
	if err != nil {
		return err
	}
	roots, err := s.store.FleetRoots(r.Context())
	if err != nil {
		return err
	}
	members, err := s.store.MemberRoots(r.Context())
	if err != nil {
		return err
	}
	all := make([]api.FleetRoot, len(roots))
	for i := range roots {
		all[i] = toFleetRoot(roots, i, members)
	}
	return writePage(w, list, max(limit, len(all)), all, func(r api.FleetRoot) string { return r.Fingerprint }, func(r api.FleetRoot) api.FleetRoot { return r })
}

// toFleetRoot describes one of the roots, which are in the order of the store.
func toFleetRoot(roots []fleet.Root, i int, members []fleet.MemberRoots) api.FleetRoot {
	r := roots[i]
	out := api.FleetRoot{
		Fingerprint: r.Fingerprint, State: api.RootSigning, CreatedAt: timeOf(r.CreatedNs), WaitsFor: []string{},
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate})),
	}
	if r.SignsNs == 0 {
		until := timeOf(r.NotBeforeNs)
		out.State, out.AnnouncedUntil = api.RootAnnounced, &until
	} else {
		since := timeOf(r.SignsNs)
		out.SignsAt = &since
		if i+1 == len(roots) || roots[i+1].SignsNs == 0 {
			return out
		}
		out.State = api.RootRetiring
	}
	for _, m := range holdingBack(r, members) {
		out.WaitsFor = append(out.WaitsFor, m.Name)
	}
	return out
}

func (s *Server) rotateFleetRoot(w http.ResponseWriter, r *http.Request) error {
	var body api.RotateFleetRootRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f faults
	announce, err := body.Announce.Parse(DefaultAnnounce)
	if err == nil && announce > store.MaxAnnounce {
		err = fmt.Errorf("it is %v; it must be at most %v", announce, store.MaxAnnounce)
	}
	if err != nil {
		f.add("announce", "%v", err)
	}
	if err := f.err(); err != nil {
		return err
	}
	root, err := certificate.NewRoot(s.cfg.Now(), s.cfg.Rand)
	if err != nil {
		return err
	}
	made, err := propose[*store.RotateFleetRootResult](r.Context(), s, &store.RotateFleetRoot{
		Meta: q.meta, Fingerprint: root.Fingerprint(), Seed: root.Seed(), Certificate: root.DER(), AnnounceNs: announce.Nanoseconds(),
	})
	if err != nil {
		return err
	}
	roots, err := s.store.FleetRoots(r.Context())
	if err != nil {
		return err
	}
	members, err := s.store.MemberRoots(r.Context())
	if err != nil {
		return err
	}
	for i := range roots {
		if roots[i].Fingerprint == made.Fingerprint {
			return serve.WriteJSON(w, http.StatusCreated, toFleetRoot(roots, i, members))
		}
	}
	return api.Errorf(api.Conflict, "the root %s was retired meanwhile", made.Fingerprint)
}

func (s *Server) switchFleetRoot(w http.ResponseWriter, r *http.Request) error {
	var body api.SwitchFleetRootRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	root, err := certificate.ParseFingerprint(r.PathValue("root"))
	if err != nil {
		return err
	}
	o := &store.SwitchFleetRoot{Meta: q.meta, Fingerprint: root, Now: true}
	for _, name := range body.Without {
		host, err := s.findHost(r.Context(), name)
		if err != nil {
			return err
		}
		o.Without = append(o.Without, host.ID)
	}
	if _, err := propose[any](r.Context(), s, o); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: api.RootSigning})
}

func (s *Server) retireFleetRoot(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	root, err := certificate.ParseFingerprint(r.PathValue("root"))
	if err != nil {
		return err
	}
	if _, err := propose[any](r.Context(), s, &store.RetireFleetRoot{Meta: q.meta, Fingerprint: root}); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "retired"})
}
