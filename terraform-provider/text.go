package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// checked is a validator that asks a function what is wrong with a text.
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

// sameDuration says whether two texts are one duration: "60m" is "1h".
func sameDuration(a, b string) bool {
	x, errX := api.Duration(a).Parse(0)
	y, errY := api.Duration(b).Parse(0)
	return errX == nil && errY == nil && x == y
}

// sameTime says whether two texts are one instant, in whatever zone.
func sameTime(a, b string) bool {
	x, okX, errX := api.Time(a).Parse()
	y, okY, errY := api.Time(b).Parse()
	return errX == nil && errY == nil && okX == okY && x.Equal(y)
}
