package money

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want Nano
		err  error
	}{
		{"0", 0, nil},
		{"-0", 0, nil},
		{"0.0", 0, nil},
		{"0e999999999999999999999", 0, nil},
		{"0e-999999999999999999999", 0, nil},
		{"1", Dollar, nil},
		{"-1", -Dollar, nil},
		{"1.5", 1_500_000_000, nil},
		{"12.34", 12_340_000_000, nil},
		{"0.1", 100_000_000, nil},
		{"1.23e-7", 123, nil},
		{"1E-9", 1, nil},
		{"-1e-9", -1, nil},
		{"10e-10", 1, nil},
		{"0.000000001", 1, nil},
		{"0.000000001000000", 1, nil},
		{"100", 100 * Dollar, nil},
		{"1e2", 100 * Dollar, nil},
		{"1e+2", 100 * Dollar, nil},
		{"1.00e2", 100 * Dollar, nil},
		{"0.00012e5", 12 * Dollar, nil},
		{"120e-1", 12 * Dollar, nil},
		{"1e-09", 1, nil},
		{"0." + strings.Repeat("0", 5000) + "25e5001", 2_500_000_000, nil},
		{"25" + strings.Repeat("0", 5000) + "e-5001", 2_500_000_000, nil},

		{"9223372036.854775807", Max, nil},
		{"9223372036.854775808", 0, ErrRange},
		{"-9223372036.854775808", Min, nil},
		{"-9223372036.854775809", 0, ErrRange},
		{"9223372036854775807e-9", Max, nil},
		{"9999999999.999999999", 0, ErrRange},
		{"10000000000", 0, ErrRange},
		{"9e9", 9e18, nil},
		{"1e10", 0, ErrRange},
		{"1e400", 0, ErrRange},
		{"1e99999999999999999999", 0, ErrRange},
		{"1e9223372036854775808", 0, ErrRange},

		{"0.0000000001", 0, ErrPrecision},
		{"1.0000000001", 0, ErrPrecision},
		{"1e-10", 0, ErrPrecision},
		{"1e-99999999999999999999", 0, ErrPrecision},

		{"", 0, ErrSyntax},
		{"-", 0, ErrSyntax},
		{"+1", 0, ErrSyntax},
		{".5", 0, ErrSyntax},
		{"5.", 0, ErrSyntax},
		{"01", 0, ErrSyntax},
		{"-01", 0, ErrSyntax},
		{"00", 0, ErrSyntax},
		{"1e", 0, ErrSyntax},
		{"1e+", 0, ErrSyntax},
		{"1e1.5", 0, ErrSyntax},
		{"1 ", 0, ErrSyntax},
		{" 1", 0, ErrSyntax},
		{"1_0", 0, ErrSyntax},
		{"0x1", 0, ErrSyntax},
		{"NaN", 0, ErrSyntax},
		{"Infinity", 0, ErrSyntax},
		{"1.5.2", 0, ErrSyntax},
		{"1,5", 0, ErrSyntax},
		{"$1", 0, ErrSyntax},
		{"١", 0, ErrSyntax},
		{strings.Repeat("x", 1000), 0, ErrSyntax},
	} {
		got, err := Parse(c.text)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("Parse(%.50q) = %d, %v; want %d, %v", c.text, got, err, c.want, c.err)
		}
		if err != nil && len(err.Error()) > 100 {
			t.Errorf("Parse(%.20q...): the message repeats %d bytes of it", c.text, len(err.Error()))
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    Nano
		want string
	}{
		{0, "0"},
		{1, "0.000000001"},
		{-1, "-0.000000001"},
		{123, "0.000000123"},
		{100_000_000, "0.1"},
		{Dollar, "1"},
		{-Dollar, "-1"},
		{10 * Dollar, "10"},
		{1_000_000_010, "1.00000001"},
		{Max, "9223372036.854775807"},
		{Min, "-9223372036.854775808"},
	} {
		if got := c.n.String(); got != c.want {
			t.Errorf("Nano(%d) prints %s, want %s", int64(c.n), got, c.want)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	type body struct {
		Cost  Nano  `json:"cost_usd"`
		Limit *Nano `json:"limit,omitempty"`
	}
	var b body
	if err := json.Unmarshal([]byte(`{"cost_usd": 1.23e-7, "limit": 9007199.254740993}`), &b); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(b)
	if want := `{"cost_usd":0.000000123,"limit":9007199.254740993}`; err != nil || string(got) != want {
		t.Errorf("round trip is %s, %v; want %s", got, err, want)
	}
	if err := json.Unmarshal([]byte(`{"cost_usd": null, "limit": null}`), &b); err != nil || b.Cost != 123 || b.Limit != nil {
		t.Errorf("null gives %+v, %v; want it to be absent", b, err)
	}
	for _, text := range []string{`"1.5"`, `true`, `{}`, `[1]`} {
		err := json.Unmarshal([]byte(`{"cost_usd":`+text+`}`), &b)
		var mismatch *json.UnmarshalTypeError
		if !errors.As(err, &mismatch) || mismatch.Field != "cost_usd" {
			t.Errorf("%s is %v, want an UnmarshalTypeError that names the field", text, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"cost_usd":1e-10}`), &b); !errors.Is(err, ErrPrecision) {
		t.Errorf("ten decimals are %v, want ErrPrecision", err)
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, m, want Nano
		err        error
	}{
		{0, 0, 0, nil},
		{1, 2, 3, nil},
		{Max, 0, Max, nil},
		{Min, 0, Min, nil},
		{Max - 1, 1, Max, nil},
		{Min + 1, -1, Min, nil},
		{Max, Min, -1, nil},
		{Max, 1, 0, ErrRange},
		{Max, Max, 0, ErrRange},
		{Min, -1, 0, ErrRange},
		{Min, Min, 0, ErrRange},
	} {
		for range 2 {
			if got, err := c.n.Add(c.m); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%d + %d = %d, %v; want %d, %v", c.n, c.m, got, err, c.want, c.err)
			}
			c.n, c.m = c.m, c.n
		}
	}
}

func TestFromFloatShortest(t *testing.T) {
	t.Parallel()
	tenth, fifth := 0.1, 0.2
	for _, c := range []struct {
		f    float64
		want Nano
		err  error
	}{
		{0, 0, nil},
		{math.Copysign(0, -1), 0, nil},
		{0.1, 100_000_000, nil},
		{0.000000001, 1, nil},
		{1.23e-7, 123, nil},
		{-2.5, -2_500_000_000, nil},
		{9e9, 9e18, nil},
		{tenth + fifth, 0, ErrPrecision}, // 0.30000000000000004
		{1e10, 0, ErrRange},
		{math.MaxFloat64, 0, ErrRange},
		{math.SmallestNonzeroFloat64, 0, ErrPrecision},
		{math.NaN(), 0, ErrSyntax},
		{math.Inf(1), 0, ErrSyntax},
		{math.Inf(-1), 0, ErrSyntax},
	} {
		if got, err := FromFloatShortest(c.f); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("FromFloatShortest(%v) = %d, %v; want %d, %v", c.f, got, err, c.want, c.err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := Nano(rapid.Int64().Draw(t, "n"))
		text := n.String()
		if back, err := Parse(text); err != nil || back != n {
			t.Fatalf("%d prints %s, which is read as %d, %v", int64(n), text, back, err)
		}
		if strings.ContainsAny(text, "eE+") || strings.Contains(text, ".") && strings.HasSuffix(text, "0") {
			t.Fatalf("%d prints %s: not plain", int64(n), text)
		}
		// The same number may be written in other ways.
		zeros := rapid.IntRange(0, 50).Draw(t, "zeros")
		if n == 0 {
			return
		}
		// The same number with an exponent and trailing zeros.
		shifted := strconv.FormatInt(int64(n), 10) + strings.Repeat("0", zeros) + "e-" + strconv.Itoa(9+zeros)
		if back, err := Parse(shifted); err != nil || back != n {
			t.Fatalf("%s is read as %d, %v; want %d", shifted, back, err, n)
		}
	})
}

func TestParseDoesNotAllocate(t *testing.T) {
	var n Nano
	text := []byte("12.345678e-3")
	if got := testing.AllocsPerRun(100, func() {
		if err := n.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("reading an amount allocates %v times, want 0", got)
	}
}

// FuzzParse compares with exact rational arithmetic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0", "-1.5e3", "9223372036.854775807", "-9223372036.854775808", "1e-10", "01", "1e", "0.10e-8", "1e99999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Parse(text)
		if err == nil {
			if back, err := Parse(n.String()); err != nil || back != n {
				t.Fatalf("%q is %d, which prints %s and is read as %d, %v", text, n, n, back, err)
			}
		}
		var number json.Number
		isJSON := json.Valid([]byte(text)) && strings.TrimSpace(text) == text && json.Unmarshal([]byte(text), &number) == nil && text[0] != '"' && text != "null"
		if isJSON == errors.Is(err, ErrSyntax) {
			t.Fatalf("%q: JSON number %v, but Parse says %v", text, isJSON, err)
		}
		if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); !isJSON || ok && len(exponent) > 4 {
			return // SetString would build a number with that many digits
		}
		exact, _ := new(big.Rat).SetString(text)
		exact.Mul(exact, big.NewRat(int64(Dollar), 1))
		switch {
		case !exact.IsInt():
			if !errors.Is(err, ErrPrecision) {
				t.Fatalf("%q is %d, %v; want ErrPrecision", text, n, err)
			}
		case !exact.Num().IsInt64():
			if !errors.Is(err, ErrRange) {
				t.Fatalf("%q is %d, %v; want ErrRange", text, n, err)
			}
		case err != nil || int64(n) != exact.Num().Int64():
			t.Fatalf("%q is %d, %v; want %v", text, n, err, exact)
		}
	})
}
