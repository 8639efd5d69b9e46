package money_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/corvo/corvo/billing/money"
)

// Counts add, compare and print like whole numbers of any size.
func TestACountIsAWholeNumber(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() int64 {
		switch rng.IntN(4) {
		case 0:
			return []int64{0, 1, -1, math.MaxInt64, math.MinInt64}[rng.IntN(5)]
		case 1:
			return rng.Int64N(1000) - 500
		}
		return int64(rng.Uint64())
	}
	sum, want := money.Count{}, new(big.Int)
	last, lastWant := sum, new(big.Int)
	for range 10_000 {
		n := draw()
		sum = sum.Add(money.CountOf(n))
		want.Add(want, big.NewInt(n))
		if sum.String() != want.String() {
			t.Fatalf("the sum is %s, want %s", sum, want)
		}
		if got := sum.Compare(last); got != want.Cmp(lastWant) {
			t.Fatalf("%s compared with %s is %d", sum, last, got)
		}
		if got := sum.Int64(); want.IsInt64() && got != want.Int64() || !want.IsInt64() && got != map[int]int64{1: math.MaxInt64, -1: math.MinInt64}[want.Sign()] {
			t.Fatalf("%s as an int64 is %d", sum, got)
		}
		var back money.Count
		if err := json.Unmarshal([]byte(sum.String()), &back); err != nil || back != sum {
			t.Fatalf("%s is read back as %s: %v", sum, back, err)
		}
		last, lastWant = sum, new(big.Int).Set(want)
	}
	if n := money.CountOf(1); n.Compare(money.Count{}) <= 0 || (money.Count{}).Compare(n) >= 0 {
		t.Error("1 is not more than 0")
	}
}

// CountOfHalves restores a sum whose halves SQL has summed.
func TestACountOfHalves(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, -1, 1 << 31, -1 << 31, 1<<31 - 1, math.MaxInt64, math.MinInt64, 1e15} {
		if got := money.CountOfHalves(n>>31, n&(1<<31-1)); got != money.CountOf(n) {
			t.Errorf("the halves of %d make %s", n, got)
		}
	}
	// A million times the largest: 9223372036854775807 x 1000000.
	const m = 1_000_000
	if got := money.CountOfHalves((math.MaxInt64>>31)*m, (math.MaxInt64&(1<<31-1))*m).String(); got != "9223372036854775807000000" {
		t.Errorf("a million times the largest is %s", got)
	}
}

// A Total holds amounts of dollars beyond the range of a Nano.
func TestATotalIsDollars(t *testing.T) {
	t.Parallel()
	sum := money.Total{}
	for range 3 {
		sum = sum.Add(money.TotalOf(money.Max))
	}
	if got := sum.String(); got != "27670116110.564327421" || sum.Nano() != money.Max {
		t.Errorf("three times the largest is %s, as a Nano %s", got, sum.Nano())
	}
	for text, want := range map[string]string{
		`27670116110.564327421`: `27670116110.564327421`, `-0.000000001`: `-0.000000001`, `1e20`: `100000000000000000000`,
		`0`: `0`, `12.50`: `12.5`, `null`: `0`,
	} {
		var got money.Total
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.String() != want {
			t.Errorf("%s is read as %s: %v", text, got, err)
		}
	}
	var typed *json.UnmarshalTypeError
	if err := json.Unmarshal([]byte(`"1"`), &money.Total{}); !errors.As(err, &typed) {
		t.Errorf("text is read: %v", err)
	}
	for text, want := range map[string]error{`1e-10`: money.ErrPrecision, `1e40`: money.ErrRange} {
		if err := json.Unmarshal([]byte(text), &money.Total{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if err := json.Unmarshal([]byte(`1.5`), &money.Count{}); !errors.Is(err, money.ErrPrecision) {
		t.Errorf("half of one is counted: %v", err)
	}
}

// Round returns the nearest amount, and rounds half a billionth to even.
func TestRound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]money.Nano{
		"0.30000000000000004": 300_000_000, "0.1": 100_000_000, "-0.30000000000000004": -300_000_000,
		"0.0000000005": 0, "0.0000000015": 2, "0.0000000025": 2, "0.00000000250000001": 3, "0.00000000050": 0, "0.000000000500000000000000000000000001": 1,
		"0.0000000004999": 0, "5e-10": 0, "15e-10": 2, "1e-400": 0, "0.9999999999": money.Dollar, "-0.0000000015": -2,
		"9223372036.854775807": money.Max, "9223372036.8547758074": money.Max, "9223372036.8547758075": money.Max,
		"-9223372036.8547758079": money.Min, "-9223372036.854775808": money.Min,
		"9223372036.854775808": money.Max, "1e300": money.Max, "-1e300": money.Min, "0e999": 0, "7": 7 * money.Dollar, "999999999.99999999949": 999_999_999_999_999_999,
	} {
		if got, err := money.Round([]byte(text)); err != nil || got != want {
			t.Errorf("%s is rounded to %d, want %d: %v", text, got, want, err)
		}
	}
	for _, text := range []string{"", "x", "1.", ".5", "0x10", "+1", "NaN"} {
		if _, err := money.Round([]byte(text)); !errors.Is(err, money.ErrSyntax) {
			t.Errorf("%q: %v", text, err)
		}
	}
	x, y := 0.1, 0.2
	for f, want := range map[float64]money.Nano{x + y: 300_000_000, math.Inf(1): money.Max, math.Inf(-1): money.Min, math.MaxFloat64: money.Max, 5e-324: 0} {
		if got, err := money.RoundFloat(f); err != nil || got != want {
			t.Errorf("%v is rounded to %d, want %d: %v", f, got, want, err)
		}
	}
	if _, err := money.RoundFloat(math.NaN()); !errors.Is(err, money.ErrSyntax) {
		t.Errorf("NaN: %v", err)
	}
}
