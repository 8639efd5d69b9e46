package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// PurgeDeliveries removes deliveries that ended at least job.DeliveryKept ago. While more than DeliveriesAim
// are kept, it also removes others that have ended, in the order of the op's ids, so that new deliveries have
// room. It never removes a delivery that still waits.

// DeliveriesAim is the number of deliveries above which ended ones are removed before their time.
const DeliveriesAim = job.MaxDeliveries / 8 * 7

// Validate refuses an op that no state could accept.
func (o *PurgeDeliveries) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("delivery_ids", o.DeliveryIds)
	return p.err()
}

// Apply removes the deliveries. It refuses nothing.
func (o *PurgeDeliveries) Apply(tx *state.Tx) (*PurgeDeliveriesResult, error) {
	result := &PurgeDeliveriesResult{}
	for _, id := range o.DeliveryIds {
		d, err := tx.Delivery([16]byte(id))
		if err != nil {
			return nil, err
		}
		over := d != nil && d.DueNs == 0
		if !over || d.PurgeNs > tx.ClockNs() && tx.Deliveries() <= DeliveriesAim {
			continue
		}
		if err := tx.PutDelivery([16]byte(id), nil); err != nil {
			return nil, err
		}
		result.Purged++
	}
	return result, nil
}
