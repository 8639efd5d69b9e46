package provider

import (
	"context"
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// roleModel is what the state has of a corvo_role.
type roleModel struct {
	placed
	Name        types.String `tfsdk:"name"`
	Permissions types.Set    `tfsdk:"permissions"`
}

func newRole() resource.Resource {
	return &declared[roleModel, *roleModel, api.RoleRequest, api.Role]{
		kind: "role", one: "role", idOf: []string{"name"},
		about:      "A custom role of a bare node or cluster: permissions that API keys are given by its name. A change of it is one of all its keys. A namespace of a cloud has built-in roles only.",
		settings:   roleSettings,
		attributes: attributes{"name": "name", "permissions": "permissions"},
		create:     (*client.Client).CreateRole,
		get:        (*client.Client).Role,
		put:        (*client.Client).PutRole,
		remove:     (*client.Client).DeleteRole,
	}
}

func roleSettings() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators: []validator.String{
				stringvalidator.RegexMatches(regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9._-]{1,%d}$`, maxRoleName)), "1 to 64 letters, digits, dots, underscores and hyphens"),
				stringvalidator.NoneOf(builtInRoles...), isReachable,
			},
			Description: "Its name, by which keys have it: none of a built-in role. A role that a key has is not deleted.",
		},
		"permissions": schema.SetAttribute{
			ElementType: types.StringType, Required: true,
			Validators:  []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.OneOf(rolePermissions...))},
			Description: "What it grants, such as job.read: nothing that the provider's key may not do itself.",
		},
	}
}

func (m *roleModel) request(ctx context.Context, to *diag.Diagnostics) api.RoleRequest {
	body := api.RoleRequest{Name: m.Name.ValueString()}
	to.Append(m.Permissions.ElementsAs(ctx, &body.Permissions, false)...)
	return body
}

func (m *roleModel) observe(ctx context.Context, r api.Role, to *diag.Diagnostics) {
	m.observed(r.Name, r.Version)
	m.Name = types.StringValue(r.Name)
	granted, faults := types.SetValueFrom(ctx, types.StringType, r.Permissions)
	to.Append(faults...)
	m.Permissions = granted
}
