package store

import (
	"context"
	"encoding/json"

	"github.com/corvo/corvo/controlplane/fleet"
)

// unsettledSQL selects the namespaces on which the reconciler must work: those whose own row says so, those with a listed
// member on a lost store that can be replaced, and those with a listed member on one of the given hosts. Each branch has
// an index, because the reconciler asks every few seconds and nearly all namespaces are settled.
const unsettledSQL = selectNamespace + ` WHERE id IN (
		SELECT id FROM namespaces WHERE phase <> 'deleted' AND (operation <> '' OR observed < generation OR listed <> replicas)
		UNION
		SELECT m.namespace FROM stores s CROSS JOIN members m ON m.store = s.id AND m.deleted = 0 AND m.leaving = 0
			CROSS JOIN namespaces n ON n.id = m.namespace AND n.replicas > 1 WHERE s.lost_ns > 0
		UNION
		SELECT m.namespace FROM json_each(?) h CROSS JOIN stores s ON s.host = h.value
			CROSS JOIN members m ON m.store = s.id AND m.deleted = 0 AND m.leaving = 0
	) ORDER BY id`

// Unsettled lists the namespaces that the reconciler must work on, by id: those with a running operation, those whose
// generation is not in effect yet, those with another number of listed members than replicas, those with several replicas
// and a listed member on a lost store, and those with a listed member on one of hosts. The caller names the hosts whose
// members shall move: the dead and the draining ones.
func (s *Store) Unsettled(ctx context.Context, hosts []string) ([]fleet.Namespace, error) {
	named, err := json.Marshal(hosts)
	if err != nil {
		return nil, err
	}
	return read(ctx, s, func(r reader) ([]fleet.Namespace, error) {
		return list(r, scanNamespace, unsettledSQL, string(named))
	})
}
