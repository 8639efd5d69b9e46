package server

import (
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/server/convert"
	"github.com/corvo/corvo/dataplane/state"
)

// settingsPath is the path of the namespace's settings.
const settingsPath = "/api/v1/settings"

func (s *Server) getSettings(w http.ResponseWriter, r *http.Request) error {
	_, home, err := s.atHome(r)
	if err != nil {
		return err
	}
	return writeSettings(w, home.State().Head().GetSettings())
}

// putSettings sets the settings on every shard in turn. If one shard fails, the shards before it have the new
// settings, and the client's repeat sets them on the remaining shards too.
func (s *Server) putSettings(w http.ResponseWriter, r *http.Request) error {
	var body api.Settings
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f convert.Faults
	wanted := convert.FromSettings(&f, &body)
	if err := f.Err(); err != nil {
		return err
	}
	if err := unversioned(r, "settings have no version that If-Match could insist on: leave it out"); err != nil {
		return err
	}
	build := func() op.Op {
		return &op.SetSettings{Meta: proto.Clone(q.meta).(*op.Meta), Settings: proto.Clone(wanted).(*state.Settings)}
	}
	if err := commitEverywhere[*op.SetSettingsResult](s, w, r, &q, build); err != nil {
		return err
	}
	return writeSettings(w, wanted)
}

func writeSettings(w http.ResponseWriter, settings *state.Settings) error {
	out, err := convert.ToSettings(settings)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}
