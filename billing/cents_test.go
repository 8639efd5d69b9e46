package billing

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/corvo/corvo/billing/money"
)

func TestWholeCentsGivesTheLargestRemaindersACentMore(t *testing.T) {
	t.Parallel()
	const cent = Cent
	for _, c := range []struct {
		name    string
		amounts []money.Nano
		total   money.Nano
		want    []int64
	}{
		{"nothing", nil, 0, []int64{}},
		{"whole cents", []money.Nano{3 * cent, 0, -2 * cent}, cent, []int64{3, 0, -2}},
		{"three thirds", []money.Nano{cent / 3, cent / 3, cent/3 + 1}, cent, []int64{0, 0, 1}},
		{"equal remainders go to the first", []money.Nano{cent / 2, cent / 2}, cent, []int64{1, 0}},
		{"a negative amount is rounded down first", []money.Nano{-cent / 4, cent + cent/2}, cent, []int64{0, 1}},
		{"one amount is rounded up", []money.Nano{cent - 1}, cent, []int64{1}},
		{"one amount is rounded down", []money.Nano{cent / 2}, 0, []int64{0}},
		{"the largest amounts", []money.Nano{money.Max, money.Min}, 0, []int64{922337203685, -922337203685}},
	} {
		got, err := WholeCents(c.amounts, c.total)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestWholeCentsRefusesATotalThatIsNotTheSum(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amounts []money.Nano
		total   money.Nano
	}{
		{[]money.Nano{Cent}, Cent + 1},
		{[]money.Nano{Cent}, 2 * Cent},
		{[]money.Nano{Cent}, 0},
		{[]money.Nano{Cent / 2, Cent / 2}, 3 * Cent},
		{[]money.Nano{Cent / 2, Cent / 2}, -Cent},
		{nil, Cent},
	} {
		if got, err := WholeCents(c.amounts, c.total); !errors.Is(err, ErrNoCents) {
			t.Errorf("%v of %s: %v, %v", c.amounts, c.total, got, err)
		}
	}
}

// TestWholeCentsOfABillSumToItsTotal divides the totals of random bills, as Bill.finish rounds them.
func TestWholeCentsOfABillSumToItsTotal(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		var bill Bill
		amounts := make([]money.Nano, random.IntN(20))
		for i := range amounts {
			amounts[i] = money.Nano(random.Int64N(int64(40*Cent))) - 10*Cent
			if random.IntN(4) == 0 {
				amounts[i] -= amounts[i] % Cent
			}
			bill.Lines = append(bill.Lines, Line{Amount: amounts[i]})
		}
		if err := bill.finish(); err != nil {
			continue // the sum is negative
		}
		parts, err := WholeCents(amounts, bill.Subtotal)
		if err != nil {
			t.Fatalf("seed %d: %v of %s: %v", seed, amounts, bill.Subtotal, err)
		}
		var sum money.Nano
		for i, part := range parts {
			sum += money.Nano(part) * Cent
			if off := money.Nano(part)*Cent - amounts[i]; off <= -Cent || off >= Cent {
				t.Fatalf("seed %d: part %d of %v is %d cents", seed, i, amounts, part)
			}
		}
		if sum != bill.Subtotal {
			t.Fatalf("seed %d: the parts %v of %v are %s, want %s", seed, parts, amounts, sum, bill.Subtotal)
		}
	}
}
