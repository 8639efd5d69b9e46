package store

import (
	"database/sql"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy/keyring"
)

// Some requests of operators wait until a second operator approves them. The record of the request is in the table of
// its noun and posts nothing meanwhile; the table approvals says that it waits.

// The kinds of requests that wait.
const (
	approvalCredit     = "credit"
	approvalCorrection = "correction"
)

// approvals maps the kinds of requests to the function that carries out an approved request.
var approvals = map[string]func(tx *Tx, m *Meta, id string) error{
	approvalCredit:     (*Tx).activateCredit,
	approvalCorrection: (*Tx).applyCorrection,
}

// approval is a request that waits for a second person.
type approval struct {
	principal string
	atNs      int64
}

func scanApproval(rows *sql.Rows) (a approval, err error) {
	err = rows.Scan(&a.principal, &a.atNs)
	return a, err
}

// awaitApproval records that a request waits for a second person.
func (tx *Tx) awaitApproval(m *Meta, kind, id string) error {
	return tx.put("INSERT INTO approvals (kind, id, principal, at_ns) VALUES (?, ?, ?, ?)", kind, id, m.GetPrincipal(), tx.clockNs())
}

// endApproval records that a request waits no more.
func (tx *Tx) endApproval(kind, id string) error {
	return tx.put("DELETE FROM approvals WHERE kind = ? AND id = ?", kind, id)
}

// checkSecondPerson refuses with FORBIDDEN an approver who has made the request. It also refuses an approver whose key
// is not an operator's, or is not older than the request, because the operator who asks could create another key.
func (tx *Tx) checkSecondPerson(m *Meta, a approval) error {
	if m.GetPrincipal() == a.principal {
		return api.Errorf(api.Forbidden, "you have made this request: ask another operator to approve it")
	}
	key, err := tx.credential(m.GetPrincipal())
	switch {
	case err != nil:
		return err
	case key == nil || key.Kind != keyring.CloudOperator:
		return api.Errorf(api.Forbidden, "only an operator approves a request")
	case key.CreatedAt.UnixNano() >= a.atNs:
		return api.Errorf(api.Forbidden, "your key is not older than the request: an operator whose key is older must approve it")
	}
	return nil
}

// ApproveCredit returns the op that approves a credit.
func ApproveCredit(m *Meta, id string) *ApproveRequest {
	return &ApproveRequest{Meta: m, Kind: approvalCredit, Id: id}
}

// ApproveCorrection returns the op that approves a correction.
func ApproveCorrection(m *Meta, id string) *ApproveRequest {
	return &ApproveRequest{Meta: m, Kind: approvalCorrection, Id: id}
}
