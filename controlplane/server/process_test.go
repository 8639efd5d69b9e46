package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
)

// TestTheOnlyProcess checks that a control plane of one process lists it and does not remove it.
func TestTheOnlyProcess(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	c := f.cloud(f.operator)
	all, err := c.Processes(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	p := all[0]
	if p.ID == "" || p.Role != api.ProcessLeader || !p.Self || p.LastContactMs != 0 || p.Level != store.FeatureLevel {
		t.Errorf("%+v", p)
	}
	for id, want := range map[string]struct {
		code api.Code
		says string
	}{
		p.ID:        {api.StateConflict, p.ID + " is the only process"},
		"control-9": {api.NotFound, `no process "control-9"`},
	} {
		if err := c.RemoveProcess(t.Context(), id); api.CodeOf(err) != want.code || !strings.Contains(err.Error(), want.says) {
			t.Errorf("remove %s: %v", id, err)
		}
	}
	for _, method := range []string{"GET /cloud/v1/processes", "DELETE /cloud/v1/processes/" + p.ID} {
		method, path, _ := strings.Cut(method, " ")
		if a := f.send(method, path, admin, ""); a.status != http.StatusForbidden {
			t.Errorf("%s %s by a tenant: %d %s", method, path, a.status, a.body)
		}
	}
	rows, err := c.OperatorAudit(t.Context(), "-")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Action == "remove-process" {
			t.Errorf("a removal that was refused is audited as made: %+v", row)
		}
	}
}
