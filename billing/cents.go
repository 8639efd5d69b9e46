package billing

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/corvo/corvo/billing/money"
)

// ErrNoCents means that amounts cannot be shown as whole cents with the given total.
var ErrNoCents = errors.New("the amounts do not add up to the total in whole cents")

// WholeCents divides a total of whole cents among the amounts whose sum it is, before rounding. Each amount is rounded down
// to whole cents, and the amounts with the largest remainders get one cent more until the sum is the total. Of equal
// remainders the first ones get it. So a part differs from its amount by less than a cent, and an amount of whole cents
// stays as it is. WholeCents returns ErrNoCents if the total is not whole cents or is not a rounding of the sum.
func WholeCents(amounts []money.Nano, total money.Nano) (cents []int64, err error) {
	if total%Cent != 0 {
		return nil, fmt.Errorf("%w: %s USD is not a whole number of cents", ErrNoCents, total)
	}
	cents, byRemainder := make([]int64, len(amounts)), make([]int, 0, len(amounts))
	rest := int64(total / Cent)
	remainder := func(i int) money.Nano { return ((amounts[i] % Cent) + Cent) % Cent }
	for i, amount := range amounts {
		cents[i] = int64(amount / Cent)
		if amount%Cent < 0 {
			cents[i]-- // rounds down
		}
		rest -= cents[i]
		if remainder(i) > 0 {
			byRemainder = append(byRemainder, i)
		}
	}
	if rest < 0 || rest > int64(len(byRemainder)) {
		return nil, fmt.Errorf("%w: a total of %s USD leaves %d cents for %d remainders", ErrNoCents, total, rest, len(byRemainder))
	}
	slices.SortStableFunc(byRemainder, func(i, j int) int { return cmp.Compare(remainder(j), remainder(i)) })
	for _, i := range byRemainder[:rest] {
		cents[i]++
	}
	return cents, nil
}
