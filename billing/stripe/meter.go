package stripe

import (
	"math"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// unit says how Stripe counts a meter of ours.
type unit struct {
	meter   billing.Meter
	divisor int64  // our quantity for one of Stripe's
	event   string // name of its events, permanent
	name    string // for people
}

// units are the meters whose quantities Stripe gets: those of the platform prices, the completed jobs and the cost of model
// calls. Each divisor keeps a month of a very large organisation below maxUnits: a petabyte stored, or 9 billion dollars. An
// event's name never gets another divisor.
var units = []unit{
	{billing.InputTokens, 1, "corvo_input_tokens", "Input tokens"},
	{billing.OutputTokens, 1, "corvo_output_tokens", "Output tokens"},
	{billing.CacheCreationTokens, 1, "corvo_cache_creation_tokens", "Cache creation tokens"},
	{billing.CacheReadTokens, 1, "corvo_cache_read_tokens", "Cache read tokens"},
	{billing.Cost, 1000, "corvo_llm_cost_micro_usd", "LLM cost in millionths of a US dollar"},
	{billing.ResponseBytes, 1000, "corvo_response_kilobytes", "Response kilobytes"},
	{billing.JobsEnqueued, 1, "corvo_jobs_enqueued", "Jobs enqueued"},
	{billing.JobsCompleted, 1, "corvo_jobs_completed", "Jobs completed"},
	{billing.ActiveSeconds, 1, "corvo_active_seconds", "Active seconds"},
	{billing.StoredByteSeconds, 1_000_000, "corvo_stored_megabyte_seconds", "Stored megabyte-seconds"},
	{billing.OpenSeconds, 1, "corvo_open_seconds", "Open seconds"},
}

// maxUnits bounds a quantity, because Stripe answers with floating-point numbers, which are exact up to 2^53.
const maxUnits = 1 << 53

// unitOf returns the unit of a meter. ok is false for a meter that Stripe does not get.
func unitOf(m billing.Meter) (u unit, ok bool) {
	for _, u := range units {
		if u.meter == m {
			return u, true
		}
	}
	return unit{}, false
}

// Meters returns the meters whose quantities Stripe gets.
func Meters() (all []billing.Meter) {
	for _, u := range units {
		all = append(all, u.meter)
	}
	return all
}

// Units converts the quantity of a meter in an hour to Stripe's unit, rounded down. A comparison with Stripe converts our
// quantity in the same way. It returns ErrUnsendable for a meter that Stripe does not get, and for a quantity that is
// negative or has more than 2^53 units.
func Units(m billing.Meter, quantity money.Count) (int64, error) {
	u, ok := unitOf(m)
	if !ok {
		return 0, unsendable("Stripe does not get the meter %s", m)
	}
	n := quantity.Int64()
	if n < 0 || n == math.MaxInt64 || n/u.divisor > maxUnits {
		return 0, unsendable("%s of %s are too many for an hour, or negative", quantity, m)
	}
	return n / u.divisor, nil
}
