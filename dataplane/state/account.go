package state

import (
	"fmt"
	"iter"
)

// The running figures of a resource lie in records of their own, under the resource's id, because the
// resource itself changes only when its owner declares it anew.

var accountKind = rowKind[*Account]{
	name:   "account",
	prefix: prefixAccount,
	count:  func(h *Head) *uint64 { return &h.AccountRecords },
	timer: func(a *Account) timer {
		due := a.ServeNs
		for _, s := range a.Spent {
			if s.EndNs != 0 && (due == 0 || s.EndNs < due) {
				due = s.EndNs
			}
		}
		if a.Slice != nil {
			if tell := a.Slice.ReportNs(); tell != 0 && (due == 0 || tell < due) {
				due = tell
			}
		}
		if due == 0 {
			return timer{}
		}
		return timer{TimerBudget, due}
	},
}

var trafficKind = rowKind[*Traffic]{
	name:   "traffic",
	prefix: prefixTraffic,
	count:  func(h *Head) *uint64 { return &h.TrafficRecords },
}

var scoresKind = rowKind[*Scores]{
	name:   "scores",
	prefix: prefixScores,
	count:  func(h *Head) *uint64 { return &h.ScoreRecords },
}

var alertKind = rowKind[*Alert]{
	name:   "alert",
	prefix: prefixAlert,
	count:  func(h *Head) *uint64 { return &h.AlertRecords },
}

var deliveryKind = rowKind[*Delivery]{
	name:   "delivery",
	prefix: prefixDelivery,
	count:  func(h *Head) *uint64 { return &h.DeliveryRecords },
	timer: func(d *Delivery) timer {
		switch {
		case d.DueNs != 0:
			return timer{TimerDelivery, d.DueNs}
		case d.PurgeNs != 0:
			return timer{TimerDelivered, d.PurgeNs}
		}
		return timer{}
	},
}

// Account returns the spending of the budget with the id, or nil if there is none. The op may change it in
// place and must then call PutAccount.
func (tx *Tx) Account(id [16]byte) (*Account, error) { return tx.accounts.get(tx, &accountKind, id) }

// PutAccount stores the spending of a budget; nil removes it. It adds an account-changed event to the feed,
// after the given events.
func (tx *Tx) PutAccount(id [16]byte, a *Account, events ...EventType) error {
	for _, event := range append(events, EventType_EVENT_ACCOUNT_CHANGED) {
		tx.recordEvent(event, "", id)
	}
	return tx.accounts.put(tx, &accountKind, id, a)
}

// Account returns the spending of a budget as of the last commit, or nil if there is none.
func (s *Store) Account(id [16]byte) (*Account, error) {
	return committed(s, func(r source) (*Account, error) { return readRow[Account](r, &accountKind, id) })
}

// Account returns the spending of a budget, or nil if there is none.
func (v *Snapshot) Account(id [16]byte) (*Account, error) {
	return readRow[Account](v.snap, &accountKind, id)
}

// Traffic returns the rate counts, reserved tokens and averages of the provider with the id, or nil before
// its first attempt. The op may change it in place and must then call PutTraffic.
func (tx *Tx) Traffic(id [16]byte) (*Traffic, error) { return tx.traffic.get(tx, &trafficKind, id) }

// PutTraffic stores the counts of a provider; nil removes them.
func (tx *Tx) PutTraffic(id [16]byte, t *Traffic) error {
	return tx.traffic.put(tx, &trafficKind, id, t)
}

// Traffic returns the counts of a provider as of the last commit, or nil if there are none.
func (s *Store) Traffic(id [16]byte) (*Traffic, error) {
	return committed(s, func(r source) (*Traffic, error) { return readRow[Traffic](r, &trafficKind, id) })
}

// Traffic returns the counts of a provider, or nil if there are none.
func (v *Snapshot) Traffic(id [16]byte) (*Traffic, error) {
	return readRow[Traffic](v.snap, &trafficKind, id)
}

// Scores returns the scores of a job, or nil if it has none. The op may change them in place and must then
// call PutScores.
func (tx *Tx) Scores(jobID [16]byte) (*Scores, error) { return tx.scores.get(tx, &scoresKind, jobID) }

// PutScores stores the scores of a job; nil removes them.
func (tx *Tx) PutScores(jobID [16]byte, s *Scores) error {
	return tx.scores.put(tx, &scoresKind, jobID, s)
}

// Scores returns the scores of a job as of the last commit, or nil if it has none.
func (s *Store) Scores(jobID [16]byte) (*Scores, error) {
	return committed(s, func(r source) (*Scores, error) { return readRow[Scores](r, &scoresKind, jobID) })
}

// Scores returns the scores of a job, or nil if it has none.
func (v *Snapshot) Scores(jobID [16]byte) (*Scores, error) {
	return readRow[Scores](v.snap, &scoresKind, jobID)
}

// Alert returns the state of an alert rule, or nil before the rule first fired. The op may change it in place
// and must then call PutAlert.
func (tx *Tx) Alert(ruleID [16]byte) (*Alert, error) { return tx.alerts.get(tx, &alertKind, ruleID) }

// PutAlert stores the state of an alert rule; nil removes it. It adds the events to the feed.
func (tx *Tx) PutAlert(ruleID [16]byte, a *Alert, events ...EventType) error {
	for _, event := range events {
		tx.recordEvent(event, "", ruleID)
	}
	return tx.alerts.put(tx, &alertKind, ruleID, a)
}

// Alert returns the state of an alert rule as of the last commit, or nil before the rule first fired.
func (s *Store) Alert(ruleID [16]byte) (*Alert, error) {
	return committed(s, func(r source) (*Alert, error) { return readRow[Alert](r, &alertKind, ruleID) })
}

// Delivery returns a delivery of an event to a webhook, or nil if there is none. The op may change it in
// place and must then call PutDelivery.
func (tx *Tx) Delivery(id [16]byte) (*Delivery, error) {
	return tx.deliveries.get(tx, &deliveryKind, id)
}

// Deliveries returns the number of stored deliveries.
func (tx *Tx) Deliveries() uint64 { return tx.head.DeliveryRecords }

// NumberDelivery returns the next delivery number and uses it up. The first is 1.
func (tx *Tx) NumberDelivery() uint64 {
	tx.head.DeliveriesMade++
	return tx.head.DeliveriesMade
}

// DropWebhookEvents counts webhook events dropped because the outbox to the first shard is full.
func (tx *Tx) DropWebhookEvents(n int) { tx.head.NotificationsLost += uint64(n) }

// PutDelivery stores a delivery under its id; nil removes it.
func (tx *Tx) PutDelivery(id [16]byte, d *Delivery) error {
	if d != nil && string(d.Id) != string(id[:]) {
		return tx.fail(fmt.Errorf("put delivery %x under %x", d.Id, id))
	}
	return tx.deliveries.put(tx, &deliveryKind, id, d)
}

// Delivery returns a delivery as of the last commit, or nil if there is none.
func (s *Store) Delivery(id [16]byte) (*Delivery, error) {
	return committed(s, func(r source) (*Delivery, error) { return readRow[Delivery](r, &deliveryKind, id) })
}

// Deliveries yields all stored deliveries in order of their ids, which is the order of their creation to the
// millisecond.
func (v *Snapshot) Deliveries() iter.Seq2[*Delivery, error] {
	return scanRows[Delivery](v.snap, &deliveryKind, [16]byte{})
}

// encodeAccounts writes the changed running figures of resources, the scores and the deliveries.
func (tx *Tx) encodeAccounts() error {
	if err := tx.accounts.encode(tx, &accountKind); err != nil {
		return err
	}
	if err := tx.traffic.encode(tx, &trafficKind); err != nil {
		return err
	}
	if err := tx.scores.encode(tx, &scoresKind); err != nil {
		return err
	}
	if err := tx.alerts.encode(tx, &alertKind); err != nil {
		return err
	}
	if err := tx.deliveries.encode(tx, &deliveryKind); err != nil {
		return err
	}
	return tx.attempted.encode(tx, &attemptedKind)
}

// accounts checks the running figures of resources, the scores and the deliveries.
func (c *checker) accounts() error {
	if err := checkRows[Account](c, &accountKind, c.slices); err != nil {
		return err
	}
	if err := checkRows[Traffic](c, &trafficKind, nil); err != nil {
		return err
	}
	if err := checkRows[Scores](c, &scoresKind, c.scoresOf); err != nil {
		return err
	}
	if c.scored != 0 {
		c.report("%d jobs count scores and have none", c.scored)
	}
	if err := checkRows[Alert](c, &alertKind, nil); err != nil {
		return err
	}
	if err := checkRows[Delivery](c, &deliveryKind, nil); err != nil {
		return err
	}
	return checkRows[Attempted](c, &attemptedKind, nil)
}
