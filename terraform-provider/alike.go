package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
)

// alike is a plan modifier for texts that mean the same in other words: such a
// change is none, and the state keeps its words. The framework's own semantic
// equality is for what a provider answers, not for what a configuration says.
type alike func(a, b string) bool

var _ planmodifier.String = alike(nil)

func (alike) Description(context.Context) string             { return "The same in other words is no change." }
func (a alike) MarkdownDescription(c context.Context) string { return a.Description(c) }

func (a alike) PlanModifyString(_ context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse) {
	if req.StateValue.IsNull() || req.PlanValue.IsNull() || req.PlanValue.IsUnknown() {
		return
	}
	if a(req.StateValue.ValueString(), req.PlanValue.ValueString()) {
		resp.PlanValue = req.StateValue
	}
}

// observe is a text as the state should have it: in the words it has if the server
// says the same, null where the server says nothing.
func (a alike) observe(prior types.String, now string) types.String {
	switch {
	case now == "":
		return types.StringNull()
	case !prior.IsNull() && a(prior.ValueString(), now):
		return prior
	}
	return types.StringValue(now)
}

// sameRetention is sameDuration for what may also be "forever".
func sameRetention(a, b string) bool { return a == b || a != api.Forever && sameDuration(a, b) }

// sameCron says whether two expressions differ in blanks and case alone. What else
// may mean the same, such as 7 and sun, is for the server to know.
func sameCron(a, b string) bool {
	return strings.EqualFold(strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " "))
}

// sameJSON says whether two texts are one JSON value, in whatever order its names
// are. Numbers are compared as they are written: 1.0 is not 1 to every program.
func sameJSON(a, b string) bool {
	x, errX := readJSON(a)
	y, errY := readJSON(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func readJSON(text string) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON value")
	}
	return v, nil
}
