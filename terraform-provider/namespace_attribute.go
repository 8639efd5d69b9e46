package provider

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

const namespaceDescription = "Id or name of the namespace; needs cloud_token. Default: the provider's namespace."

// planNamespace plans the namespace attribute of a resource: the configured namespace,
// else the provider's. Another namespace replaces the resource; another name of the same
// namespace does not.
func (s *session) planNamespace(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	at := path.Root("namespace")
	var config, prior types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, at, &config)...)
	planned := config
	if config.IsNull() {
		var err error
		if planned, err = s.defaultNamespace(); err != nil {
			report(&resp.Diagnostics, "choose a namespace", err, nil)
			return
		}
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, at, planned)...)
	}
	if resp.Diagnostics.HasError() || req.State.Raw.IsNull() {
		return
	}
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, at, &prior)...)
	if planned.IsUnknown() || !s.sameNamespace(ctx, prior.ValueString(), planned.ValueString()) {
		resp.RequiresReplace = append(resp.RequiresReplace, at)
	}
}

// importInNamespace reads an import id of the form name or namespace/name. The last part
// is the attribute's value.
func (s *session) importInNamespace(ctx context.Context, attribute string, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	before, last, found := strings.Cut(req.ID, "/")
	namespace := types.StringValue(before)
	if !found {
		var err error
		last = req.ID
		if namespace, err = s.defaultNamespace(); err != nil {
			report(&resp.Diagnostics, "import "+req.ID, err, nil)
			return
		}
	}
	if last == "" || (found && before == "") || namespace.IsUnknown() {
		resp.Diagnostics.AddError("Cannot import "+req.ID, "Write NAMESPACE/"+strings.ToUpper(attribute)+", or only "+strings.ToUpper(attribute)+" for the provider's namespace.")
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("namespace"), namespace)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), last)...)
}
