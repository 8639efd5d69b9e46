package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// checked is a validator that calls a function to find the fault of a text.
type checked struct {
	want  string
	check func(string) error
}

var _ validator.String = checked{}

func (v checked) Description(context.Context) string         { return v.want }
func (v checked) MarkdownDescription(context.Context) string { return v.want }

func (v checked) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := v.check(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Not "+v.want, err.Error())
	}
}

var (
	isDuration = checked{`a duration like "90s" or "24h"`, func(text string) error {
		if text == "" {
			return errors.New("it is empty")
		}
		_, err := api.Duration(text).Parse(0)
		return err
	}}
	isTime = checked{`a time like "2027-01-01T00:00:00Z"`, func(text string) error {
		_, there, err := api.Time(text).Parse()
		if err == nil && !there {
			return errors.New("it is empty")
		}
		return err
	}}
	isSecret = checked{"the text of an API key", func(text string) error {
		_, err := client.ReadSecret(text)
		return err
	}}
)

// isDurationWithin accepts a duration of whole milliseconds within the bounds.
func isDurationWithin(least, most time.Duration) checked {
	return checked{fmt.Sprintf("a duration from %s to %s", least, most), func(text string) error { return checkDuration(text, least, most) }}
}

// isRetention accepts a duration of whole milliseconds of at most maxRetention, or api.Forever.
var isRetention = checked{`a duration like "24h", or "forever"`, func(text string) error {
	if text == api.Forever {
		return nil
	}
	return checkDuration(text, time.Millisecond, maxRetention)
}}

func checkDuration(text string, least, most time.Duration) error {
	if err := isDuration.check(text); err != nil {
		return err
	}
	d, err := api.Duration(text).Parse(0)
	switch {
	case err != nil:
		return err
	case d < least || d > most:
		return fmt.Errorf("%s is not between %s and %s", text, least, most)
	case d%time.Millisecond != 0:
		return fmt.Errorf("%s is not a whole number of milliseconds", text)
	}
	return nil
}

// sameDuration reports whether two texts are one duration: "60m" is "1h".
func sameDuration(a, b string) bool {
	x, errX := api.Duration(a).Parse(0)
	y, errY := api.Duration(b).Parse(0)
	return errX == nil && errY == nil && x == y
}

// sameTime reports whether two texts are one instant, in any time zones.
func sameTime(a, b string) bool {
	x, okX, errX := api.Time(a).Parse()
	y, okY, errY := api.Time(b).Parse()
	return errX == nil && errY == nil && okX == okY && x.Equal(y)
}

// isUSDWithin accepts an amount of dollars within the bounds.
func isUSDWithin(least, most string) checked {
	from, errFrom := api.ParseUSD(least)
	to, errTo := api.ParseUSD(most)
	if err := errors.Join(errFrom, errTo); err != nil {
		panic(err) // the bound in this program is not an amount
	}
	return checked{fmt.Sprintf("an amount of dollars from %s to %s", least, most), func(text string) error {
		n, err := api.ParseUSD(text)
		if err == nil && (n < from || n > to) {
			err = fmt.Errorf("%s is not between %s and %s", text, least, most)
		}
		return err
	}}
}

// sameUSD reports whether two texts are one amount: "12.50" is "12.5".
func sameUSD(a, b string) bool {
	x, errX := api.ParseUSD(a)
	y, errY := api.ParseUSD(b)
	return errX == nil && errY == nil && x == y
}

// givenUSD returns a configured amount, or nil for an omitted one.
func givenUSD(name string, text types.String, to *diag.Diagnostics) *api.USD {
	if text.IsNull() || text.IsUnknown() {
		return nil
	}
	n, err := api.ParseUSD(text.ValueString())
	if err != nil {
		to.AddAttributeError(path.Root(name), "Not an amount of dollars", err.Error())
	}
	return &n
}

// observeUSD converts an amount for the state; nil becomes null.
func observeUSD(prior types.String, now *api.USD) types.String {
	if now == nil {
		return types.StringNull()
	}
	return alike(sameUSD).observe(prior, now.String())
}
