package state

import (
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// What has been spent on a budget, in the words of billing.

// Sums is what was spent in the window as it is at nowNs. A calendar's window that is
// over and has not been turned counts as the one that is: it forgets nothing early.
func (x *Spent) Sums(nowNs int64) billing.Sums {
	if x.Window == Window_WINDOW_ROLLING {
		r := x.rolling()
		return r.Sums(nowNs)
	}
	return billing.Sums{Settled: money.Nano(x.SettledNanoUsd), Overrun: money.Nano(x.OverrunNanoUsd)}
}

// Book counts what was spent at nowNs.
func (x *Spent) Book(s billing.Sums, nowNs int64) {
	if x.Window == Window_WINDOW_ROLLING {
		r := x.rolling()
		r.Add(s, nowNs)
		x.setRolling(r)
		return
	}
	sum := x.Sums(nowNs).Add(s)
	x.SettledNanoUsd, x.OverrunNanoUsd = int64(sum.Settled), int64(sum.Overrun)
}

// FallsTo is when no more than an amount is spent in the window, if nothing is spent
// from now on.
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

// Resize has a rolling window be of another length.
func (x *Spent) Resize(lengthMs, nowNs int64) { x.setRolling(x.rolling().Over(lengthMs, nowNs)) }

// Forget makes room for new alerts in a rolling window that has told of what it had to
// for as long as it is: one that is always nearly full tells of it once a length, as a
// calendar's does.
func (x *Spent) forgetAlerts(nowNs int64) {
	if x.Window == Window_WINDOW_ROLLING && nowNs-x.StartNs >= x.LengthMs*1e6 {
		x.StartNs, x.Alerted = nowNs, 0
	}
}

// Tell notes the percentages, rising, that what is spent has come to and that were not
// told of in this window, and returns them.
func (x *Spent) Tell(percents []uint32, limit money.Nano, nowNs int64) (told []uint32) {
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

// RaiseNow is what the limits of a budget are raised by at nowNs.
func (b *Budget) RaiseNow(nowNs int64) money.Nano {
	if nowNs < b.GetRaiseUntilNs() {
		return money.Nano(b.RaiseNanoUsd)
	}
	return 0
}

// Limit is a limit of a budget at nowNs: what it was raised by is in it.
func (b *Budget) Limit(nanoUsd, nowNs int64) money.Nano {
	return billing.Raise(money.Nano(nanoUsd), b.RaiseNow(nowNs))
}

// Available is what a limit of the budget leaves in its window; negative where it is
// overrun. spent is that limit's.
func (a *Account) Available(b *Budget, l *SpendLimit, spent *Spent, nowNs int64) money.Nano {
	return billing.Available(b.Limit(l.LimitNanoUsd, nowNs), money.Nano(a.ReservedNanoUsd), spent.Sums(nowNs))
}
