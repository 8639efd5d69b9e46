package api

import "github.com/corvo/corvo/billing/money"

// BudgetRequest declares a budget, a limit on the cost of jobs. It needs at least one limit. An absent field
// gets its default, also when the request replaces a budget.
type BudgetRequest struct {
	Scope  string `json:"scope,omitempty"`  // namespace, queue, tag, key or job; a PUT has it in the URL path
	Target string `json:"target,omitempty"` // a queue, a tag as name=value, or a fairness key; "default" for namespace and job

	DailyUSD      *money.Nano `json:"daily_usd,omitempty"`
	WeeklyUSD     *money.Nano `json:"weekly_usd,omitempty"` // weeks begin on Monday
	MonthlyUSD    *money.Nano `json:"monthly_usd,omitempty"`
	RollingUSD    *money.Nano `json:"rolling_usd,omitempty"`
	RollingWindow Duration    `json:"rolling_window,omitempty"` // the length of the window, which always ends now: 1m to 9600h; required with rolling_usd
	PerJobUSD     *money.Nano `json:"per_job_usd,omitempty"`    // of all attempts of one job

	Timezone string `json:"timezone,omitempty"` // IANA time zone of the days, weeks and months; default UTC
	// OnExceed selects what happens to a job that the budget cannot pay for: hold (the default), reject,
	// throttle or alert_only.
	OnExceed string `json:"on_exceed,omitempty"`
	// DefaultReserveUSD is the reserve for an attempt of a job that has neither cost_estimate_usd nor an
	// agent with max_cost_usd. If it is 0 or absent, the budget reserves the unspent part of per_job_usd.
	// Without per_job_usd it reserves the moving average of the cost of attempts in the job's queue, and at
	// least 1 % of the smallest limit of all budgets that apply to the job. All these budgets reserve the
	// same amount, the largest of their reserves. A reserve that is not declared is cut to the smallest limit
	// of those that are not alert_only.
	DefaultReserveUSD *money.Nano `json:"default_reserve_usd,omitempty"`
	Alerts            []uint32    `json:"alerts,omitempty"` // at most 10 ascending percentages of each limit, up to 1000; the event budget_alert reports each once per window
}

// The values of a budget's OnExceed.
const (
	ExceedHold      = "hold"       // the job is held until a person approves it
	ExceedReject    = "reject"     // the job becomes dead
	ExceedThrottle  = "throttle"   // the job waits until the budget can pay for it, while other jobs go first; if the budget can never pay for it, it is held
	ExceedAlertOnly = "alert_only" // the job runs, and the event budget_exceeded reports once per window that the limit is reached
)

// The values of a budget's ReserveFrom.
const (
	ReserveFromDefault  = "default_reserve_usd"
	ReserveFromPerJob   = "per_job_usd" // the unspent part of per_job_usd
	ReserveFromEstimate = "estimate"    // the moving average of the cost of attempts in the queue
	ReserveFromFloor    = "floor"       // 1 % of the smallest limit, because the estimate is at most that or unknown
	ReserveFromNone     = "none"        // the budget has no reserve of its own, such as every budget of scope job without default_reserve_usd
)

// Budget is the present state of a budget. Its JSON always has every field.
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
	DefaultReserveUSD money.Nano  `json:"default_reserve_usd"` // 0 = reserve_usd is derived
	Alerts            []uint32    `json:"alerts"`

	// ReserveUSD is the present reserve for an attempt of a job without an estimate. In a budget of several
	// queues it leaves out the average cost of attempts in each queue; an attempt in a queue with a higher
	// average reserves that average.
	ReserveUSD  money.Nano `json:"reserve_usd"`
	ReserveFrom string     `json:"reserve_from"` // default_reserve_usd, per_job_usd, estimate, floor or none

	ReservedUSD money.Nano     `json:"reserved_usd"` // for running attempts, and granted to shards that share the budget
	Windows     []BudgetWindow `json:"windows"`      // one for each limit except per_job_usd
	RaiseUSD    money.Nano     `json:"raise_usd"`    // temporary raise of every limit
	RaiseUntil  *Time          `json:"raise_until"`
	CreatedAt   Time           `json:"created_at"`

	// Version is set by package client from the ETag of the response; 0 in a list.
	Version int64 `json:"-"`
}

// BudgetWindow is the spending in the present window of one limit.
type BudgetWindow struct {
	Window       string     `json:"window"` // daily, weekly, monthly or rolling
	LimitUSD     money.Nano `json:"limit_usd"`
	Start        Time       `json:"start"`
	End          Time       `json:"end"`
	SettledUSD   money.Nano `json:"settled_usd"`   // cost within the reserves of the attempts that caused it
	OverrunUSD   money.Nano `json:"overrun_usd"`   // cost beyond the reserves
	AvailableUSD money.Nano `json:"available_usd"` // limit + raise - settled - overrun - reserved; negative if overdrawn
}

// RaiseBudgetRequest raises every limit of a budget until a time, given by either For or Until. The raise
// replaces an earlier one. An amount of 0 ends the raise and needs no time.
type RaiseBudgetRequest struct {
	AmountUSD *money.Nano `json:"amount_usd"`      // required
	For       Duration    `json:"for,omitempty"`   // at most 9600h
	Until     Time        `json:"until,omitempty"` // in the future
}
