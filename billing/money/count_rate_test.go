package money

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// bigCount draws a count of any size, often near the ends of 63 and 127 bits.
func bigCount(t *rapid.T, name string) Count {
	c := Count{lo: rapid.Uint64().Draw(t, name+".lo")}
	switch rapid.IntRange(0, 2).Draw(t, name+".size") {
	case 1:
		c.hi = rapid.Int64Range(0, 3).Draw(t, name+".hi")
	case 2:
		c.hi = rapid.Int64Range(0, math.MaxInt64).Draw(t, name+".hi")
	}
	return c
}

func toBig(c Count) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(c.hi), 64)
	return n.Add(n, new(big.Int).SetUint64(c.lo))
}

// Price equals exact rational arithmetic with half-even rounding, or is ErrRange.
func TestPriceIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := bigCount(t, "count")
		price := Nano(rapid.Int64Range(0, math.MaxInt64).Draw(t, "price"))
		per := rapid.Int64Range(1, math.MaxInt64).Draw(t, "per")
		if rapid.Bool().Draw(t, "small") {
			price, per = price%1000, 1+per%1000 // so that halves are frequent
		}
		want, rest := new(big.Int).QuoRem(new(big.Int).Mul(toBig(c), big.NewInt(int64(price))), big.NewInt(per), new(big.Int))
		switch rest.Lsh(rest, 1).Cmp(big.NewInt(per)) {
		case 1:
			want.Add(want, big.NewInt(1))
		case 0:
			want.Add(want, big.NewInt(int64(want.Bit(0))))
		}
		got, err := c.Price(price, per)
		if !want.IsInt64() {
			if !errors.Is(err, ErrRange) {
				t.Fatalf("%v x %d / %d is %v, but Price says %d, %v", c, int64(price), per, want, int64(got), err)
			}
			return
		}
		if err != nil || int64(got) != want.Int64() {
			t.Fatalf("%v x %d / %d is %v, but Price says %d, %v", c, int64(price), per, want, int64(got), err)
		}
	})
}

func TestPriceRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count Count
		price Nano
		per   int64
	}{{CountOf(-1), 1, 1}, {CountOf(1), -1, 1}, {CountOf(1), 1, 0}, {CountOf(1), 1, -1}, {CountOf(math.MaxInt64), 2, 1}, {Count{hi: math.MaxInt64, lo: math.MaxUint64}, Max, math.MaxInt64}} {
		if got, err := c.count.Price(c.price, c.per); !errors.Is(err, ErrRange) {
			t.Errorf("%v x %d / %d is %v, %v", c.count, int64(c.price), c.per, got, err)
		}
	}
	// The largest amount, and the half above it.
	if got, err := CountOf(math.MaxInt64).Price(1, 1); err != nil || got != Max {
		t.Errorf("the largest amount is %v, %v", got, err)
	}
	if got, err := (Count{lo: math.MaxUint64}).Price(1, 2); !errors.Is(err, ErrRange) {
		t.Errorf("half a nano-dollar above the largest amount is %v, %v", got, err)
	}
}

func TestAddNatural(t *testing.T) {
	t.Parallel()
	most := Count{hi: math.MaxInt64, lo: math.MaxUint64}
	if sum, err := most.Minus(CountOf(1)).AddNatural(CountOf(1)); err != nil || sum != most {
		t.Errorf("the largest sum is %v, %v", sum, err)
	}
	for _, pair := range [][2]Count{{most, CountOf(1)}, {most, most}, {CountOf(-1), CountOf(2)}, {CountOf(2), CountOf(-1)}} {
		if sum, err := pair[0].AddNatural(pair[1]); !errors.Is(err, ErrRange) {
			t.Errorf("%v + %v is %v, %v", pair[0], pair[1], sum, err)
		}
	}
}
