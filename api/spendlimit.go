package api

// SpendLimit is the limit of an organisation's bill before tax, for each calendar month in UTC. While the bill has reached
// it, no job of the organisation starts.
type SpendLimit struct {
	Period   string `json:"period"`              // the running month, such as 2026-11
	LimitUSD *USD   `json:"limit_usd,omitempty"` // absent = none
	// EffectiveUSD is the limit with the raises that have not expired; absent without a limit.
	EffectiveUSD *USD `json:"effective_usd,omitempty"`
	SpendUSD     USD  `json:"spend_usd"`      // subtotal of the bill of the month, credits not subtracted
	OverLimitUSD USD  `json:"over_limit_usd"` // spend above the effective limit, by the delay of metering
	// Held says that no job starts. HeldSince is the time since when.
	Held      bool         `json:"held"`
	HeldSince *Time        `json:"held_since,omitempty"`
	SetBy     string       `json:"set_by,omitempty"` // id of the token that set the limit
	SetAt     *Time        `json:"set_at,omitempty"`
	Alerts    []SpendAlert `json:"alerts"`          // of the month, in the order of percent
	Raises    []SpendRaise `json:"raises"`          // made in the month or not expired, the oldest first
	AsOf      *Time        `json:"as_of,omitempty"` // when the control plane applied the newest usage; absent = there is none
}

// SpendAlert says that the bill has reached a share of the spend limit. Each share has at most one alert a month.
type SpendAlert struct {
	Percent  int64 `json:"percent"` // 50, 80, 95 or 100
	At       Time  `json:"at"`
	SpendUSD USD   `json:"spend_usd"` // then
	LimitUSD USD   `json:"limit_usd"` // then, with raises
}

// SpendRaise is a temporary raise of a spend limit.
type SpendRaise struct {
	ID         string `json:"id"`
	AmountUSD  USD    `json:"amount_usd"` // is added to the limit
	Reason     string `json:"reason"`
	ApprovedBy string `json:"approved_by"` // id of the token, or of the operator's key, that made the raise
	Operator   bool   `json:"operator"`    // an operator of the cloud approved it
	CreatedAt  Time   `json:"created_at"`
	ExpiresAt  Time   `json:"expires_at"`
}

// SetSpendLimitRequest sets the spend limit of an organisation.
type SetSpendLimitRequest struct {
	LimitUSD USD `json:"limit_usd"` // above 0, at most 1000000
}

// RaiseSpendLimitRequest raises a spend limit until a time. An organisation may raise its limit by as much again, over all
// raises that have not expired. Operators of the cloud may raise it by more.
type RaiseSpendLimitRequest struct {
	AmountUSD USD    `json:"amount_usd"` // above 0, at most 1000000
	Reason    string `json:"reason"`     // 1 to 256 bytes
	ExpiresAt Time   `json:"expires_at"` // at most 31 days ahead
}
