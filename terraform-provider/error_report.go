package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/corvo/corvo/api"
)

var (
	errNotFound  = &api.Error{Code: api.NotFound}
	errOvertaken = &api.Error{Code: api.PreconditionFailed} // another change came first
)

func gone(err error) bool { return errors.Is(err, errNotFound) }

// attributes maps a field of a request to its attribute: "name" or "object.name".
type attributes map[string]string

func attributePath(name string) path.Path {
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		return path.Root(name)
	}
	return path.Root(outer).AtName(inner)
}

// index matches the index of a list element in a field's path.
var index = regexp.MustCompile(`\[\d+\]`)

// report turns an error into diagnostics: one for each field that the server refused, at the field's
// attribute if it has one, else one with the error's code and message. what names the failed action, such as
// "create namespace mail".
func report(to *diag.Diagnostics, what string, err error, names attributes) {
	var c *configError
	if errors.As(err, &c) {
		to.AddError(fmt.Sprintf("Cannot %s: %s", what, c.summary), c.detail)
		return
	}
	var e *api.Error
	if !errors.As(err, &e) {
		to.AddError("Cannot "+what, err.Error())
		return
	}
	summary := fmt.Sprintf("Cannot %s: %s", what, e.Code)
	fields := refused(e)
	for _, f := range fields {
		if name, ok := names[index.ReplaceAllString(f.Field, "")]; ok {
			to.AddAttributeError(attributePath(name), summary, f.Error)
		} else {
			to.AddError(summary, f.Field+": "+f.Error)
		}
	}
	if len(fields) == 0 {
		to.AddError(summary, e.Message)
	}
}

// refused lists the fields that an error names.
func refused(e *api.Error) (fields []api.FieldError) {
	raw, err := json.Marshal(e.Details["fields"])
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return nil // a server may have its own details; the message says it all
	}
	return fields
}

// reportOvertaken reports an update that another client's change preceded.
func reportOvertaken(to *diag.Diagnostics, what string, err error) {
	to.AddError("Cannot "+what+": "+string(api.PreconditionFailed), "Another client changed it after Terraform had read it ("+err.Error()+"). Run terraform plan to see the change, then apply.")
}
