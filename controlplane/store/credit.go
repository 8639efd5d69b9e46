package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// The states of a credit. A credit that waits for approval has no transaction in the ledger.
const (
	CreditPending   = "pending"   // waits for a second person
	CreditActive    = "active"    // its rest may be used
	CreditRevoked   = "revoked"   // an operator took the rest back
	CreditWithdrawn = "withdrawn" // was never active
	CreditExpiring  = "expiring"  // is over, and its rest may be used by invoices of months that ended before
	CreditExpired   = "expired"   // the rest went at its expiry
	CreditUsed      = "used"      // invoices have used all of it
)

// Credit is an amount that an organisation may use in place of payments.
type Credit struct {
	ID                  string
	Org                 tenancy.OrgID
	Currency            string
	Amount, Rest        money.Nano
	Reason              string
	Status              string
	Principal, Approver string
	CreatedNs           int64
	GrantedNs           int64 // when it became active; 0 = never
	ExpiresNs           int64 // 0 = never
	EndedNs             int64 // when it was withdrawn, revoked or used up, or has expired; 0 = it has not ended
}

const creditColumns = "id, org, currency, amount, rest, reason, status, principal, approver, created_ns, granted_ns, expires_ns, ended_ns"

const selectCredit = "SELECT " + creditColumns + " FROM credits"

func scanCredit(rows *sql.Rows) (c Credit, err error) {
	err = rows.Scan(&c.ID, &c.Org, &c.Currency, &c.Amount, &c.Rest, &c.Reason, &c.Status, &c.Principal, &c.Approver, &c.CreatedNs, &c.GrantedNs, &c.ExpiresNs, &c.EndedNs)
	return c, err
}

func noCredit(id string) *api.Error { return api.Errorf(api.NotFound, "there is no credit %q", id) }

// credit finds a credit by id, else NOT_FOUND.
func credit(q querier, id string) (Credit, error) {
	c, found, err := first(q, scanCredit, selectCredit+" WHERE id = ?", id)
	if err == nil && !found {
		err = noCredit(id)
	}
	return c, err
}

// Credit finds a credit of an organisation by id, else NOT_FOUND.
func (s *Store) Credit(ctx context.Context, org tenancy.OrgID, id string) (Credit, error) {
	return read(ctx, s, func(r reader) (Credit, error) {
		c, err := credit(r, id)
		if err == nil && c.Org != org {
			return Credit{}, noCredit(id)
		}
		return c, err
	})
}

// Credits lists, by id, the credits of an organisation with an id above after: at most limit, and at most MaxPage.
func (s *Store) Credits(ctx context.Context, org tenancy.OrgID, after string, limit int) ([]Credit, error) {
	return read(ctx, s, func(r reader) ([]Credit, error) {
		return list(r, scanCredit, selectCredit+" WHERE org = ? AND id > ? ORDER BY id LIMIT ?", string(org), after, page(limit))
	})
}

// grantedAlone sums what operators have granted to an organisation in a month without a second person.
func (tx *Tx) grantedAlone(org tenancy.OrgID, startNs, endNs int64) (money.Count, error) {
	sum, _, err := first(tx, scanHalves, "SELECT COALESCE(SUM(amount >> 31), 0), COALESCE(SUM(amount & 2147483647), 0) FROM credits WHERE org = ? AND approver = '' AND granted_ns >= ? AND granted_ns < ?",
		string(org), startNs, endNs)
	return sum, err
}

// scanHalves scans a sum whose halves SQL has summed, because SQLite refuses a sum of more than 63 bits.
func scanHalves(rows *sql.Rows) (money.Count, error) {
	var high, low int64
	err := rows.Scan(&high, &low)
	return money.CountOfHalves(high, low), err
}

// activateCredit makes a credit active by a second person. It refuses with STATE_CONFLICT a credit that would end
// before it begins.
func (tx *Tx) activateCredit(m *Meta, id string) error {
	c, err := credit(tx, id)
	if err != nil {
		return fmt.Errorf("credit %s waits for approval: %w", id, err)
	}
	if c.ExpiresNs != 0 && c.ExpiresNs <= tx.clockNs() {
		return api.Errorf(api.StateConflict, "credit %s would end before it begins: grant another with a later expires_at", id)
	}
	c.Approver = m.GetPrincipal()
	if err := tx.postGrant(c); err != nil {
		return err
	}
	err = tx.put("UPDATE credits SET status = ?, rest = amount, approver = ?, granted_ns = ? WHERE id = ?", CreditActive, c.Approver, tx.clockNs(), id)
	if err != nil {
		return err
	}
	return tx.audit(m, c.Org, id)
}

// postGrant posts the grant of a credit.
func (tx *Tx) postGrant(c Credit) error {
	return tx.post(billing.Transaction{
		Source: "credit/" + c.ID, Org: string(c.Org), Currency: c.Currency, Principal: c.Principal, Approver: c.Approver, Memo: c.Reason,
		Postings: []billing.Posting{{Account: billing.CreditsOutstanding, Amount: -c.Amount}, {Account: billing.CreditsGranted, Amount: c.Amount}},
	})
}

// endCredit ends a credit in a state, and posts its unused rest back.
func (tx *Tx) endCredit(c Credit, status, principal, memo string) error {
	if c.Status == CreditPending {
		if err := tx.endApproval(approvalCredit, c.ID); err != nil {
			return err
		}
	}
	if c.Rest != 0 {
		err := tx.post(billing.Transaction{
			Source: "credit/" + c.ID + "/" + status, Org: string(c.Org), Currency: c.Currency, Principal: principal, Memo: memo,
			Postings: []billing.Posting{{Account: billing.CreditsOutstanding, Amount: c.Rest}, {Account: billing.CreditsGranted, Amount: -c.Rest}},
		})
		if err != nil {
			return err
		}
	}
	return tx.put("UPDATE credits SET status = ?, rest = 0, ended_ns = ? WHERE id = ?", status, tx.clockNs(), c.ID)
}

// expiryPrincipal is the principal of expiries in the ledger and in the audit log.
const expiryPrincipal = "expiry"

// expireCredits ends at most the given number of credits that have expired. It runs after the ops of an entry, so that
// an expiry needs no op of its own. A credit with a rest is only marked while a month that ended before its expiry has no
// invoice, because the previews of that month have promised it.
func (tx *Tx) expireCredits(most int) error {
	over, err := list(tx, scanCredit, selectCredit+" WHERE ended_ns = 0 AND expires_ns > 0 AND status <> 'expiring' AND expires_ns <= ? ORDER BY expires_ns, id LIMIT ?", tx.clockNs(), most)
	if err != nil {
		return err
	}
	for _, c := range over {
		until, err := invoicedUntil(tx, c.Org)
		if err != nil {
			return err
		}
		if c.Rest > 0 && c.outlives(until) {
			err = tx.put("UPDATE credits SET status = ? WHERE id = ?", CreditExpiring, c.ID)
		} else {
			err = tx.expireCredit(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outlives reports whether the month that begins at a time ends before the credit expires.
func (c Credit) outlives(startNs int64) bool {
	_, endNs := billing.MonthBefore(startNs + 1)
	return c.ExpiresNs >= endNs
}

// expireCredit ends a credit that has expired.
func (tx *Tx) expireCredit(c Credit) error {
	if err := tx.endCredit(c, CreditExpired, expiryPrincipal, "expired"); err != nil {
		return fmt.Errorf("expire credit %s: %w", c.ID, err)
	}
	return tx.addAudit(AuditRow{Org: c.Org, Principal: expiryPrincipal, Action: "expire-credit", Target: c.ID, Count: 1})
}

// endExpiring ends the marked credits of an organisation that no later invoice may use.
func (tx *Tx) endExpiring(org tenancy.OrgID, untilNs int64) error {
	marked, err := list(tx, scanCredit, selectCredit+" WHERE org = ? AND status = ? ORDER BY id", string(org), CreditExpiring)
	if err != nil {
		return err
	}
	for _, c := range marked {
		if c.outlives(untilNs) {
			continue
		}
		if err := tx.expireCredit(c); err != nil {
			return err
		}
	}
	return nil
}
