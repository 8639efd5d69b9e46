package state

import (
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// These methods express the spending of a budget in the types of package billing.

// Sums returns the spending in the current window at nowNs. A calendar window that is over still counts until
// an op begins the next one, so that nothing is forgotten early.
func (x *Spent) Sums(nowNs int64) billing.Sums {
	if x.Window == Window_WINDOW_ROLLING {
		r := x.rolling()
		return r.Sums(nowNs)
	}
	return billing.Sums{Settled: money.Nano(x.SettledNanoUsd), Overrun: money.Nano(x.OverrunNanoUsd)}
}

// Add adds spending at nowNs.
func (x *Spent) Add(s billing.Sums, nowNs int64) {
	if x.Window == Window_WINDOW_ROLLING {
		r := x.rolling()
		r.Add(s, nowNs)
		x.setRolling(r)
		return
	}
	sum := x.Sums(nowNs).Add(s)
	x.SettledNanoUsd, x.OverrunNanoUsd = int64(sum.Settled), int64(sum.Overrun)
}

// FallsTo returns when the spending in the window falls to at most the given amount, if nothing is spent from
// nowNs on. The result is nowNs or later.
func (x *Spent) FallsTo(most money.Nano, nowNs int64) int64 {
	switch {
	case x.Sums(nowNs).Spent() <= most:
		return nowNs
	case x.Window == Window_WINDOW_ROLLING:
		r := x.rolling()
		return r.FallsTo(most, nowNs)
	}
	return max(x.EndNs, nowNs)
}

// Resize changes the length of a rolling window.
func (x *Spent) Resize(lengthMs, nowNs int64) { x.setRolling(x.rolling().Over(lengthMs, nowNs)) }

// forgetAlerts lets a rolling window raise its alerts again each time a window's length has passed. A window
// that is always nearly full then alerts once per length, as a calendar window does.
func (x *Spent) forgetAlerts(nowNs int64) {
	if x.Window == Window_WINDOW_ROLLING && nowNs-x.StartNs >= x.LengthMs*1e6 {
		x.StartNs, x.Alerted = nowNs, 0
	}
}

// RaiseAlerts returns the alert percentages that the spending has newly reached in this window, and records
// the highest. percents must be ascending.
func (x *Spent) RaiseAlerts(percents []uint32, limit money.Nano, nowNs int64) (told []uint32) {
	spent := x.Sums(nowNs).Spent()
	x.forgetAlerts(nowNs)
	for _, percent := range percents {
		if percent > x.Alerted && billing.Reaches(spent, limit, percent) {
			told = append(told, percent)
		}
	}
	if len(told) > 0 {
		x.Alerted = told[len(told)-1]
	}
	return told
}

func (x *Spent) rolling() billing.Rolling {
	return billing.Rolling{LengthMs: x.LengthMs, Newest: x.Newest, Settled: x.SettledSlices, Overrun: x.OverrunSlices}
}

func (x *Spent) setRolling(r billing.Rolling) {
	x.LengthMs, x.Newest, x.SettledSlices, x.OverrunSlices = r.LengthMs, r.Newest, r.Settled, r.Overrun
}

// RaiseNow returns the raise of a budget's limits at nowNs, 0 for none.
func (b *Budget) RaiseNow(nowNs int64) money.Nano {
	if nowNs < b.GetRaiseUntilNs() {
		return money.Nano(b.RaiseNanoUsd)
	}
	return 0
}

// Limit returns a limit of a budget at nowNs, including a raise.
func (b *Budget) Limit(nanoUsd, nowNs int64) money.Nano {
	return billing.Raise(money.Nano(nanoUsd), b.RaiseNow(nowNs))
}

// Available returns the money that a limit of the budget leaves in its window after spending and reserves. It
// may be negative, for example after an overrun. spent belongs to that limit.
func (a *Account) Available(b *Budget, l *SpendLimit, spent *Spent, nowNs int64) money.Nano {
	return billing.Available(b.Limit(l.LimitNanoUsd, nowNs), money.Nano(a.ReservedNanoUsd), spent.Sums(nowNs))
}
