package state

import (
	"fmt"
	"iter"
)

// What comes of resources lies in records of its own, under the resource's id: a
// resource says what somebody wants and changes when they change it.

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
			if tell := a.Slice.TellNs(); tell != 0 && (due == 0 || tell < due) {
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

// Account is what a budget has come to; nil when there is none. The op may change it
// in place and must then call PutAccount.
func (tx *Tx) Account(id [16]byte) (*Account, error) { return tx.accounts.get(tx, &accountKind, id) }

// PutAccount stores what a budget has come to; nil removes it. The feed is told that
// it changed, and of the events besides.
func (tx *Tx) PutAccount(id [16]byte, a *Account, events ...EventType) error {
	for _, event := range append(events, EventType_EVENT_ACCOUNT_CHANGED) {
		tx.recordEvent(event, "", id)
	}
	return tx.accounts.put(tx, &accountKind, id, a)
}

// Account is what a budget has come to as of the last commit; nil when there is none.
func (s *Store) Account(id [16]byte) (*Account, error) {
	return committed(s, func(r source) (*Account, error) { return readRow[Account](r, &accountKind, id) })
}

// Account is what a budget has come to; nil when there is none.
func (v *Snapshot) Account(id [16]byte) (*Account, error) {
	return readRow[Account](v.snap, &accountKind, id)
}

// Traffic is what goes to the provider with the id; nil before its first job. The op
// may change it in place and must then call PutTraffic.
func (tx *Tx) Traffic(id [16]byte) (*Traffic, error) { return tx.traffic.get(tx, &trafficKind, id) }

// PutTraffic stores what goes to a provider; nil removes it.
func (tx *Tx) PutTraffic(id [16]byte, t *Traffic) error {
	return tx.traffic.put(tx, &trafficKind, id, t)
}

// Traffic is what goes to a provider as of the last commit; nil when there is none.
func (s *Store) Traffic(id [16]byte) (*Traffic, error) {
	return committed(s, func(r source) (*Traffic, error) { return readRow[Traffic](r, &trafficKind, id) })
}

// Traffic is what goes to a provider; nil when there is none.
func (v *Snapshot) Traffic(id [16]byte) (*Traffic, error) {
	return readRow[Traffic](v.snap, &trafficKind, id)
}

// Scores are the judgements of a job; nil when there are none. The op may change them
// in place and must then call PutScores.
func (tx *Tx) Scores(jobID [16]byte) (*Scores, error) { return tx.scores.get(tx, &scoresKind, jobID) }

// PutScores stores the judgements of a job; nil removes them.
func (tx *Tx) PutScores(jobID [16]byte, s *Scores) error {
	return tx.scores.put(tx, &scoresKind, jobID, s)
}

// Scores are the judgements of a job as of the last commit; nil when there are none.
func (s *Store) Scores(jobID [16]byte) (*Scores, error) {
	return committed(s, func(r source) (*Scores, error) { return readRow[Scores](r, &scoresKind, jobID) })
}

// Scores are the judgements of a job; nil when there are none.
func (v *Snapshot) Scores(jobID [16]byte) (*Scores, error) {
	return readRow[Scores](v.snap, &scoresKind, jobID)
}

// Alert is the state of an alert rule; nil before it first fired. The op may change it
// in place and must then call PutAlert.
func (tx *Tx) Alert(ruleID [16]byte) (*Alert, error) { return tx.alerts.get(tx, &alertKind, ruleID) }

// PutAlert stores the state of an alert rule; nil removes it.
func (tx *Tx) PutAlert(ruleID [16]byte, a *Alert, events ...EventType) error {
	for _, event := range events {
		tx.recordEvent(event, "", ruleID)
	}
	return tx.alerts.put(tx, &alertKind, ruleID, a)
}

// Alert is the state of an alert rule as of the last commit; nil before it first fired.
func (s *Store) Alert(ruleID [16]byte) (*Alert, error) {
	return committed(s, func(r source) (*Alert, error) { return readRow[Alert](r, &alertKind, ruleID) })
}

// Delivery is an event on its way to a webhook; nil when there is none. The op may
// change it in place and must then call PutDelivery.
func (tx *Tx) Delivery(id [16]byte) (*Delivery, error) {
	return tx.deliveries.get(tx, &deliveryKind, id)
}

// Deliveries is how many deliveries are kept.
func (tx *Tx) Deliveries() uint64 { return tx.head.DeliveryRecords }

// NumberDelivery is the number of a delivery that is queued now.
func (tx *Tx) NumberDelivery() uint64 {
	tx.head.DeliveriesMade++
	return tx.head.DeliveriesMade
}

// LoseTellings counts events for webhooks that there is no room for on the way to the
// first shard.
func (tx *Tx) LoseTellings(n int) { tx.head.TellingsLost += uint64(n) }

// PutDelivery stores a delivery under its id; nil removes it.
func (tx *Tx) PutDelivery(id [16]byte, d *Delivery) error {
	if d != nil && string(d.Id) != string(id[:]) {
		return tx.fail(fmt.Errorf("put delivery %x under %x", d.Id, id))
	}
	return tx.deliveries.put(tx, &deliveryKind, id, d)
}

// Delivery is a delivery as of the last commit; nil when there is none.
func (s *Store) Delivery(id [16]byte) (*Delivery, error) {
	return committed(s, func(r source) (*Delivery, error) { return readRow[Delivery](r, &deliveryKind, id) })
}

// Deliveries are all deliveries kept, in order of their ids: the oldest first.
func (v *Snapshot) Deliveries() iter.Seq2[*Delivery, error] {
	return scanRows[Delivery](v.snap, &deliveryKind, [16]byte{})
}

// encodeAccounts writes the records of what has come of resources.
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

// accounts checks the records of what has come of resources.
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
