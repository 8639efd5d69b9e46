package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// operatorKeys are the keys of the operators of the cloud. They have all rights of operators, so that they have no
// settings.
var operatorKeys = keyOwner{
	kind: keyring.CloudOperator, kindName: "operator's key", read: tenancy.FleetOperate, manage: tenancy.FleetOperate,
	locate: func(*Server, request, tenancy.Permission) (string, error) { return "", nil },
}

// operatorRoutes returns the routes of operators' keys. Requests that need a second person need the key of another
// operator.
func (s *Server) operatorRoutes() []serve.Route {
	const path = cloud + "/operators"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: operatorKeys.read, Handler: s.listKeys(operatorKeys), Query: paging,
			Summary: "List the keys of operators", Response: keyPage{}},
		{Method: "POST", Path: path, Permission: operatorKeys.manage, Handler: s.createOperator,
			Summary: "Create a key for another operator", Description: "Only this answer holds the key. It has all rights of operators.", Request: api.CreateOperatorRequest{}, Response: api.CloudKey{}, Status: http.StatusCreated},
		{Method: "DELETE", Path: path + "/{id}", Permission: operatorKeys.manage, Handler: s.revokeOperator, Conditions: versioned,
			Summary: "Revoke the key of another operator", Description: "The key of the request itself is refused, so that nobody locks himself out.", Response: api.Status{}},
	}
}

func (s *Server) createOperator(w http.ResponseWriter, r *http.Request) error {
	var body api.CreateOperatorRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	if n := len(body.Name); n == 0 || n > tenancy.MaxKeyName {
		return api.Errorf(api.ValidationError, "name: has %d bytes: it takes 1 to %d", n, tenancy.MaxKeyName)
	}
	var minted secret
	if err := minted.mint(s, operatorKeys.kind); err != nil {
		return err
	}
	key := tenancy.Key{ID: minted.id, Name: body.Name, Hash: minted.hash, Roles: []tenancy.Role{tenancy.CloudOperator}}
	made, err := propose[*store.CreateCredentialResult](r.Context(), s, &store.CreateCredential{Meta: q.meta, Credential: toCredential(key, operatorKeys.kind, "")})
	if err != nil {
		return err
	}
	return s.writeNewKey(w, operatorKeys, minted, made.Id)
}

// revokeOperator revokes the key of another operator.
func (s *Server) revokeOperator(w http.ResponseWriter, r *http.Request) error {
	if r.PathValue("id") == serve.Principal(r.Context()).KeyID {
		return api.Errorf(api.StateConflict, "this is the key of your request: another operator revokes it")
	}
	return s.revokeKey(operatorKeys)(w, r)
}
