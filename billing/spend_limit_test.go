package billing

import (
	"testing"

	"github.com/corvo/corvo/billing/money"
)

// A threshold is reached at its share of the limit, and not a nano-dollar below. Shares of a limit that is no multiple of a
// hundred nano-dollars are rounded up, so that no threshold is reached too early.
func TestSpendPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spend, limit, want int64 }{
		{0, 1000, 0}, {499, 1000, 0}, {500, 1000, 50}, {799, 1000, 50}, {800, 1000, 80}, {949, 1000, 80}, {950, 1000, 95}, {999, 1000, 95}, {1000, 1000, 100}, {5000, 1000, 100},
		{0, 1, 0}, {1, 1, 100}, {1, 3, 0}, {2, 3, 50}, {3, 3, 100}, {-7, 1000, 0},
		{int64(money.Max)/2 + 1, int64(money.Max), 50}, {int64(money.Max) - 1, int64(money.Max), 95}, {int64(money.Max), int64(money.Max), 100},
	} {
		if got := SpendPercent(money.Nano(c.spend), money.Nano(c.limit)); got != c.want {
			t.Errorf("%d of %d nano-dollars reach %d %%, want %d", c.spend, c.limit, got, c.want)
		}
	}
}
