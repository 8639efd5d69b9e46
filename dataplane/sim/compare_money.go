package sim

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// account returns the record that the store should hold for an account.
func (m *model) account(a *modelAccount) *state.Account {
	out := &state.Account{Id: a.id, Name: a.name, ReservedNanoUsd: m.reserved(a)}
	for _, w := range a.windows {
		s := &state.Spent{Window: w.kind, StartNs: w.startNs, EndNs: w.endNs, Alerted: w.alerted, LengthMs: w.lengthMs}
		if w.kind != state.Window_WINDOW_ROLLING {
			s.SettledNanoUsd, s.OverrunNanoUsd = w.sums(m.clockNs)
		} else if n := len(w.booked); n > 0 {
			newest := w.slice(w.booked[n-1].ns)
			s.Newest, s.SettledSlices, s.OverrunSlices = uint64(newest), make([]int64, 65), make([]int64, 65)
			for _, b := range w.booked {
				if at := w.slice(b.ns); newest-at <= 64 {
					s.SettledSlices[at%65] += b.settled
					s.OverrunSlices[at%65] += b.overrun
				}
			}
		}
		out.Spent = append(out.Spent, s)
	}
	return out
}

// compareMoney compares the price book's version and the accounts with the model's. It also reports an attempt
// that began although a budget had no room for it.
func (m *model) compareMoney(v *state.Snapshot) error {
	errs := []error{m.broken}
	if h := v.Head(); h.GetPriceBook() != m.priceBook || h.GetAccountRecords() != uint64(len(m.accounts)) {
		errs = append(errs, fmt.Errorf("the store has price book %d and %d accounts, the model %d and %d", h.GetPriceBook(), h.GetAccountRecords(), m.priceBook, len(m.accounts)))
	}
	for id, a := range m.accounts {
		is, err := v.Account([16]byte([]byte(id)))
		if want := m.account(a); err != nil || !proto.Equal(is, want) {
			errs = append(errs, fmt.Errorf("budget %s has come to %v in the store, to %v in the model (%w)", a.name, is, want, err))
		}
	}
	return errors.Join(errs...)
}

// compareSpending compares a job's reservation, model, fairness key and charge, and whether it has reported
// usage.
func (m *model) compareSpending(j *modelJob, is *job.Job) error {
	reservation, want := is.GetLease().GetReservation(), &job.Reservation{}
	if c := m.reservations[j.id]; c != nil {
		want.ReservedNanoUsd, want.SpentNanoUsd = c.reserved, c.spent
		for _, a := range c.on {
			want.BudgetIds = append(want.BudgetIds, a.id)
		}
	}
	want.CostNanoUsd = j.attemptCost
	got := &job.Reservation{CostNanoUsd: reservation.GetCostNanoUsd(), BudgetIds: reservation.GetBudgetIds(), ReservedNanoUsd: reservation.GetReservedNanoUsd(), SpentNanoUsd: reservation.GetSpentNanoUsd()}
	same := proto.Equal(got, want) && is.GetOptions().GetModel() == j.options.GetModel() &&
		is.GetFairnessKey() == j.fairnessKey && is.GetFairnessWeight() == j.weight && is.GetLease().GetChargedNs() == j.chargedNs && (is.GetUsage() != nil) == j.reportedEver
	if !same {
		return fmt.Errorf("job %s has %v, %v and usage %v in the store, %v and %v in the model", j.id, reservation, is.GetOptions(), is.GetUsage(), want, j.options)
	}
	return nil
}

// compareTold compares the events about budgets that the last entry added to the feed with the model's.
func (sh *shard) compareTold() error {
	v := sh.steady.store.Snapshot()
	defer v.Close()
	said := map[notice]int{}
	for item, err := range v.Feed(max(sh.heard, v.Head().GetFeedFirstSeq())) {
		if err != nil {
			return err
		}
		for _, e := range item.Entry.GetEvents() {
			if e.GetType() == state.EventType_EVENT_BUDGET_ALERT || e.GetType() == state.EventType_EVENT_BUDGET_EXCEEDED {
				said[notice{e.GetType(), [16]byte(append(e.GetJobId(), e.GetRecordId()...))}]++
			}
		}
	}
	sh.heard = v.Head().GetFeedNextSeq()
	if should := sh.model.noticed; !maps.Equal(said, should) {
		return fmt.Errorf("the feed tells %v of budgets, in the model %v", said, should)
	}
	clear(sh.model.noticed)
	return nil
}

// learnReason copies the error text of the job's origin from the store, if the model does not predict that
// text.
func (j *modelJob) learnReason(is *job.Job) {
	if text := is.GetOrigin().GetError(); j.origin.GetError() == anyReason && strings.HasPrefix(text, "budget ") {
		j.origin = proto.Clone(j.origin).(*job.Origin)
		j.origin.Error = text
	}
}
