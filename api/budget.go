package api

import "github.com/corvo/corvo/billing/money"

// BudgetRequest describes a budget: what jobs may cost. At least one limit is given;
// what is absent gets its default, also where it replaces one.
type BudgetRequest struct {
	Scope  string `json:"scope,omitempty"`  // namespace, queue, tag, key or job; a PUT has it in its path
	Target string `json:"target,omitempty"` // a queue, a tag as name=value, a fairness key; "default" for namespace and job

	DailyUSD      *money.Nano `json:"daily_usd,omitempty"`
	WeeklyUSD     *money.Nano `json:"weekly_usd,omitempty"` // from Monday
	MonthlyUSD    *money.Nano `json:"monthly_usd,omitempty"`
	RollingUSD    *money.Nano `json:"rolling_usd,omitempty"`
	RollingWindow Duration    `json:"rolling_window,omitempty"` // with rolling_usd: the last so long, whenever one looks
	PerJobUSD     *money.Nano `json:"per_job_usd,omitempty"`    // of all attempts of one job

	Timezone string `json:"timezone,omitempty"` // of the IANA database, in which days begin; default UTC
	// OnExceed says what becomes of a job that the budget has no room for: hold (the
	// default), reject, throttle or alert_only.
	OnExceed string `json:"on_exceed,omitempty"`
	// DefaultReserveUSD is reserved for an attempt whose job has no cost_estimate_usd
	// and no agent with max_cost_usd. Without it the budget reserves what is left of
	// per_job_usd, else what attempts of the job's queue have cost on a moving average,
	// and at least 1 % of its smallest limit. 0 is the same as absent.
	DefaultReserveUSD *money.Nano `json:"default_reserve_usd,omitempty"`
	Alerts            []uint32    `json:"alerts,omitempty"` // percentages of a limit that are told of once in its window, rising
}

// The words of a budget's OnExceed.
const (
	ExceedHold      = "hold"       // the job is held until a person approves it
	ExceedReject    = "reject"     // it is dead
	ExceedThrottle  = "throttle"   // it waits until there is room, and others go first
	ExceedAlertOnly = "alert_only" // it runs, and the event budget_exceeded is told
)

// The words of a budget's ReserveFrom.
const (
	ReserveFromDefault  = "default_reserve_usd"
	ReserveFromPerJob   = "per_job_usd" // what is left of it
	ReserveFromEstimate = "estimate"    // what attempts of the queue have cost, on a moving average
	ReserveFromFloor    = "floor"       // 1 % of the smallest limit: the estimate is lower, or unknown
	ReserveFromNone     = "none"        // a budget of scope job reserves nothing of its own
)

// Budget is a budget and what it has come to. Every field is always present in its
// JSON.
type Budget struct {
	Scope             string      `json:"scope"`
	Target            string      `json:"target"`
	DailyUSD          *money.Nano `json:"daily_usd"`
	WeeklyUSD         *money.Nano `json:"weekly_usd"`
	MonthlyUSD        *money.Nano `json:"monthly_usd"`
	RollingUSD        *money.Nano `json:"rolling_usd"`
	RollingWindow     *Duration   `json:"rolling_window"`
	PerJobUSD         *money.Nano `json:"per_job_usd"`
	Timezone          string      `json:"timezone"`
	OnExceed          string      `json:"on_exceed"`
	DefaultReserveUSD money.Nano  `json:"default_reserve_usd"` // 0: reserve_usd is derived
	Alerts            []uint32    `json:"alerts"`

	// ReserveUSD is what the budget reserves now for an attempt whose job says nothing
	// of its cost. Of a budget for several queues it does not count what attempts of a
	// queue have cost: where that is more, it is reserved.
	ReserveUSD  money.Nano `json:"reserve_usd"`
	ReserveFrom string     `json:"reserve_from"` // default_reserve_usd, per_job_usd, estimate, floor or none

	ReservedUSD money.Nano     `json:"reserved_usd"` // for attempts that run, and granted to shards that share the budget
	Windows     []BudgetWindow `json:"windows"`      // one for each limit but per_job_usd
	RaiseUSD    money.Nano     `json:"raise_usd"`    // more on every limit, for a while
	RaiseUntil  *Time          `json:"raise_until"`
	CreatedAt   Time           `json:"created_at"`

	// Version is for the client, which reads it off the answer's ETag; 0 in a list.
	Version int64 `json:"-"`
}

// BudgetWindow is what a limit has come to in the window that is now.
type BudgetWindow struct {
	Window       string     `json:"window"` // daily, weekly, monthly or rolling
	LimitUSD     money.Nano `json:"limit_usd"`
	Start        Time       `json:"start"`
	End          Time       `json:"end"`
	SettledUSD   money.Nano `json:"settled_usd"`   // up to what was reserved for it
	OverrunUSD   money.Nano `json:"overrun_usd"`   // beyond, by attempts that ran
	AvailableUSD money.Nano `json:"available_usd"` // limit + raise - settled - overrun - reserved; negative where it is overrun
}

// RaiseBudgetRequest raises every limit of a budget for a while: For or Until says how
// long. It takes the place of a raise before; 0 ends that.
type RaiseBudgetRequest struct {
	AmountUSD *money.Nano `json:"amount_usd"` // required
	For       Duration    `json:"for,omitempty"`
	Until     Time        `json:"until,omitempty"`
}
