package store

import (
	"context"
	"database/sql"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
)

const selectOperation = `SELECT id, kind, org, namespace, name, status, error_code, error_text, created_ns, finished_ns FROM operations`

func scanOperation(rows *sql.Rows) (o fleet.Operation, err error) {
	err = rows.Scan(&o.ID, &o.Kind, &o.Org, &o.Namespace, &o.Name, &o.Status, &o.ErrorCode, &o.ErrorText, &o.CreatedNs, &o.FinishedNs)
	return o, err
}

func noOperation(id string) error { return api.Errorf(api.NotFound, "there is no operation %q", id) }

// begin starts an operation on a namespace and makes it the namespace's running one. It refuses an id that is
// taken. The caller writes the namespace.
func (tx *Tx) begin(n *fleet.Namespace, id, kind string, m *Meta) error {
	taken, err := number(tx, "SELECT COUNT(*) FROM operations WHERE id = ?", id)
	if err != nil {
		return err
	}
	if taken > 0 {
		return api.Errorf(api.Conflict, "there is an operation %q already; choose another id", id)
	}
	n.Operation, n.Trace = id, m.GetTrace()
	return tx.put(`INSERT INTO operations (id, kind, org, namespace, name, status, error_code, error_text, created_ns, finished_ns)
		VALUES (?, ?, ?, ?, ?, ?, '', '', ?, 0)`,
		id, kind, string(n.Org), string(n.ID), n.Name, string(fleet.Running), tx.clockNs())
}

// finish ends the running operation; a nil failure is success. The caller writes the namespace.
func (tx *Tx) finish(n *fleet.Namespace, failure *api.Error) error {
	status, code, text := fleet.Done, api.Code(""), ""
	if failure != nil {
		status, code, text = fleet.Failed, failure.Code, failure.Message
	}
	id := n.Operation
	n.Operation, n.Trace = "", ""
	return tx.put("UPDATE operations SET status = ?, error_code = ?, error_text = ?, finished_ns = ? WHERE id = ? AND status = ?",
		string(status), string(code), text, tx.clockNs(), id, string(fleet.Running))
}

// Operation finds an operation by id, else NOT_FOUND.
func (s *Store) Operation(ctx context.Context, id string) (fleet.Operation, error) {
	return read(ctx, s, func(r reader) (fleet.Operation, error) { return operation(r, id) })
}

func operation(q querier, id string) (fleet.Operation, error) {
	o, found, err := first(q, scanOperation, selectOperation+" WHERE id = ?", id)
	if err == nil && !found {
		err = noOperation(id)
	}
	return o, err
}

// Operations lists the operations of an organisation, newest first: at most limit, and at most MaxPage. If
// before is set, it lists only operations older than before, and the error is NOT_FOUND if the organisation
// has no such operation.
func (s *Store) Operations(ctx context.Context, org tenancy.OrgID, before string, limit int) ([]fleet.Operation, error) {
	return read(ctx, s, func(r reader) ([]fleet.Operation, error) {
		if before == "" {
			return list(r, scanOperation, selectOperation+" WHERE org = ? ORDER BY created_ns DESC, id DESC LIMIT ?", string(org), page(limit))
		}
		last, err := operation(r, before)
		if err == nil && last.Org != org {
			err = noOperation(before)
		}
		if err != nil {
			return nil, err
		}
		return list(r, scanOperation, selectOperation+" WHERE org = ? AND (created_ns, id) < (?, ?) ORDER BY created_ns DESC, id DESC LIMIT ?",
			string(org), last.CreatedNs, last.ID, page(limit))
	})
}
