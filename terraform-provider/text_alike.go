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

// alike is a plan modifier for texts with several spellings of one value. It plans no change for another
// spelling, and the state keeps its own. The framework's semantic equality cannot replace it, because that
// compares a provider's answers and not configurations.
type alike func(a, b string) bool

var _ planmodifier.String = alike(nil)

func (alike) Description(context.Context) string {
	return "A different spelling of the same value is not a change."
}
func (a alike) MarkdownDescription(c context.Context) string { return a.Description(c) }

func (a alike) PlanModifyString(_ context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse) {
	if req.StateValue.IsNull() || req.PlanValue.IsNull() || req.PlanValue.IsUnknown() {
		return
	}
	if a(req.StateValue.ValueString(), req.PlanValue.ValueString()) {
		resp.PlanValue = req.StateValue
	}
}

// observe returns the text for the state: the state's spelling if the server's value is
// equal, null if the server has none.
func (a alike) observe(prior types.String, now string) types.String {
	switch {
	case now == "":
		return types.StringNull()
	case !prior.IsNull() && a(prior.ValueString(), now):
		return prior
	}
	return types.StringValue(now)
}

// sameRetention compares durations like sameDuration, and accepts "forever".
func sameRetention(a, b string) bool { return a == b || a != api.Forever && sameDuration(a, b) }

// sameCron reports whether two expressions differ only in blanks and case. Only the server
// knows other equal expressions, such as 7 and sun.
func sameCron(a, b string) bool {
	return strings.EqualFold(strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " "))
}

// sameJSON reports whether two texts are one JSON value, in any order of names. It
// compares numbers as text, because 1.0 is not 1 to every program.
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
