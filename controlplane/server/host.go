package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// DefaultRegion is the region of a host that names none.
const DefaultRegion = "local"

// NewHost returns the op that registers a host or gateway with its credential. NewHost generates the member's
// id and writes the id into credential.Owner. An empty region becomes DefaultRegion.
func (s *Server) NewHost(meta *store.Meta, name string, kind keyring.Kind, region string, credential *store.Credential) (*store.CreateHost, error) {
	if region == "" {
		region = DefaultRegion
	}
	prefix := hostPrefix
	if kind == keyring.Gateway {
		prefix = gatewayPrefix
	}
	id, err := s.newID(prefix)
	if err != nil {
		return nil, err
	}
	credential.Owner = id
	return &store.CreateHost{Meta: meta, Id: id, Name: name, Kind: string(kind), Region: region, Credential: credential}, nil
}

func (s *Server) createHost(w http.ResponseWriter, r *http.Request) error {
	var body api.CreateHostRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f faults
	f.name(body.Name)
	kind := keyring.Host
	switch body.Kind {
	case "", kindWords[keyring.Host]:
	case kindWords[keyring.Gateway]:
		kind = keyring.Gateway
	default:
		f.add("kind", "%s is none: use host or gateway", text.Quote(body.Kind))
	}
	if body.Zone != "" && kind == keyring.Gateway {
		f.add("zone", "is %s, and a gateway has none: leave it out", text.Quote(body.Zone))
	}
	if err := f.err(); err != nil {
		return err
	}
	credential, id, hash, err := keyring.New(s.cfg.Rand, kind)
	if err != nil {
		return err
	}
	o, err := s.NewHost(q.meta, body.Name, kind, body.Region, toCredential(tenancy.Key{ID: id, Name: body.Name, Hash: hash}, kind, ""))
	if err != nil {
		return err
	}
	o.Zone = body.Zone
	made, err := propose[*store.CreateHostResult](r.Context(), s, o)
	if err != nil {
		return err
	}
	if made.Id != o.Id {
		return api.Errorf(api.Conflict, "an earlier request with this Idempotency-Key registered %s and received its credential, which is not stored: register another", made.Id)
	}
	host, err := s.store.Host(r.Context(), made.Id)
	if err != nil {
		return err
	}
	w.Header().Set("Location", cloud+"/hosts/"+host.ID)
	return writeResource(w, http.StatusCreated, host.Version, api.CreatedHost{Host: s.toHost(host), Credential: credential, FleetRoot: s.cfg.Authority.Fingerprint()})
}

// listHosts lists all hosts and gateways. The store returns all of them, so listHosts cuts the page.
func (s *Server) listHosts(w http.ResponseWriter, r *http.Request) error {
	const list = "hosts"
	limit, after, err := pageOf(r, list)
	if err != nil {
		return err
	}
	all, err := s.store.Hosts(r.Context())
	if err != nil {
		return err
	}
	first := 0
	for first < len(all) && all[first].ID <= after {
		first++
	}
	all = all[first:min(first+limit+1, len(all))]
	return writePage(w, list, limit, all, func(h fleet.Host) string { return h.ID }, s.toHost)
}

// hostNamed returns the host or gateway that the path names by id or name.
func (s *Server) hostNamed(r *http.Request) (fleet.Host, error) {
	return s.findHost(r.Context(), r.PathValue("host"))
}

// findHost finds a host or gateway by id or name.
func (s *Server) findHost(ctx context.Context, idOrName string) (fleet.Host, error) {
	host, err := s.store.Host(ctx, idOrName)
	if api.CodeOf(err) == api.NotFound {
		err = api.Errorf(api.NotFound, "there is no host or gateway %s", text.Quote(idOrName))
	}
	return host, err
}

func (s *Server) getHost(w http.ResponseWriter, r *http.Request) error {
	host, err := s.hostNamed(r)
	if err != nil {
		return err
	}
	return writeResource(w, http.StatusOK, host.Version, s.toHost(host))
}

// removeHost removes a host or gateway. Its service tokens are refused from then on, because
// authenticateMember finds no host.
func (s *Server) removeHost(w http.ResponseWriter, r *http.Request) error {
	_, err := s.changeHost(r, func(meta *store.Meta, id string, version int64) store.Op {
		return &store.RemoveHost{Meta: meta, Id: id, ExpectVersion: version}
	})
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "deleted"})
}

// jwks writes the public keys of service tokens and documents.
func (s *Server) jwks(w http.ResponseWriter, _ *http.Request) error {
	_, jwks := s.cfg.Signer.Trusted()
	w.Header().Set("Content-Type", "application/jwk-set+json")
	// Caches may keep the keys for half of Announce, because a new key signs as soon as Announce is over.
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(Announce.Seconds()/2)))
	_, _ = w.Write(jwks) // an error means that the client is gone
	return nil
}

// healthz answers ok if the store has not failed and can be read, and UNHEALTHY otherwise.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) error {
	if err := s.alive(r); err != nil {
		if r.Context().Err() == nil {
			s.cfg.Logger.Error("unhealthy", "error", err)
		}
		return api.Wrap(err, api.Unhealthy, "this control plane cannot serve: see its log and restart it")
	}
	return serve.WriteJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

func (s *Server) alive(r *http.Request) error {
	if err := s.store.Err(); err != nil {
		return err
	}
	_, err := s.store.SigningKeys(r.Context())
	return err
}

// readyz answers ok if a load balancer should send requests here: the server does not drain, its store has
// every acknowledged change, and it has a signing key and a usable certificate.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if s.draining.Err() != nil {
		return api.Errorf(api.Unhealthy, "this control plane is shutting down")
	}
	if err := s.alive(r); err != nil {
		return api.Wrap(err, api.Unhealthy, "this control plane is not ready: see its log")
	}
	if err := s.verify(r.Context()); err != nil {
		return err
	}
	if _, err := s.cfg.Signer.Key(); err != nil {
		return api.Wrap(err, api.Unhealthy, "this control plane has no signing key yet")
	}
	checks := s.memberChecks()
	if held := s.cfg.Certificate; held != nil {
		check, usable := held.Health()
		if !usable {
			return api.Errorf(api.Unhealthy, "this control plane is not ready: %s", check)
		}
		checks["certificate"] = check
	}
	return serve.WriteJSON(w, http.StatusOK, api.Health{Status: "ok", Checks: checks})
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	s.cfg.Metrics.Handler().ServeHTTP(w, r)
	return nil
}

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.openapi)
	return nil
}
