package server

import (
	"io"

	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy/resourceid"
)

// The prefixes of ids. The underscore keeps an id from being a name.
const (
	orgPrefix       = "org_"
	namespacePrefix = "ns_"
	operationPrefix = "op_"
	hostPrefix      = "host_"
	gatewayPrefix   = "gw_"
)

func (s *Server) newID(prefix string) (string, error) {
	return resourceid.New(s.cfg.Rand, prefix, s.store.ClockNs())
}

// newIncarnations returns random incarnations for the shards of a new namespace.
func (s *Server) newIncarnations(shards int) ([][]byte, error) {
	all := make([][]byte, shards)
	for i := range all {
		var one entry.Incarnation
		if _, err := io.ReadFull(s.cfg.Rand, one[:]); err != nil {
			return nil, err
		}
		all[i] = one[:]
	}
	return all, nil
}
