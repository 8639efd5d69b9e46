package server

import (
	"net/http"
	"net/http/pprof"
	runtimepprof "runtime/pprof"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// profilesPath is where the tools of pprof look for profiles.
const profilesPath = "/debug/pprof/"

// profiles answers with a profile of the process, or a list of those there are. It is
// for those who administer the node: a profile tells of everything that runs here, and
// taking one costs what the node could do for others.
func (s *Server) profiles(w http.ResponseWriter, r *http.Request) error {
	if s.cloud() {
		return api.Errorf(api.Forbidden, "what a host of the cloud uses is for those who run it")
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
