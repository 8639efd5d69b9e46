package server

import (
	"net/http"
	"net/http/pprof"
	runtimepprof "runtime/pprof"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// profilesPath is the path where the tools of pprof look for profiles.
const profilesPath = "/debug/pprof/"

// profiles answers with a profile of the process, or with the list of profiles. Only administrators of a node
// may read profiles, and nobody on a host of the cloud, because a profile shows everything that runs here and
// slows the process down while it is taken.
func (s *Server) profiles(w http.ResponseWriter, r *http.Request) error {
	if s.cloud() {
		return api.Errorf(api.Forbidden, "only operators may see the resources of a cloud host")
	}
	switch name := strings.TrimPrefix(r.URL.Path, profilesPath); name {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		if name != "" && runtimepprof.Lookup(name) == nil {
			return api.Errorf(api.NotFound, "there is no profile %s: %s lists all", text.Quote(name), profilesPath)
		}
		pprof.Index(w, r)
	}
	return nil
}
