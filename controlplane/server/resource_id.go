package server

import "github.com/corvo/corvo/tenancy/resourceid"

// The prefixes of ids. The underscore keeps an id from being a name.
const (
	orgPrefix       = "org_"
	namespacePrefix = "ns_"
	operationPrefix = "op_"
	hostPrefix      = "host_"
	gatewayPrefix   = "gw_"
	raisePrefix     = "raise_"
	creditPrefix    = "cr_"

	correctionPrefix = "uc_"
)

func (s *Server) newID(prefix string) (string, error) {
	return resourceid.New(s.cfg.Rand, prefix, s.store.ClockNs())
}
