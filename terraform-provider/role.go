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

// roleModel is the model of a corvo_role in the state.
type roleModel struct {
	placed
	Name        types.String `tfsdk:"name"`
	Permissions types.Set    `tfsdk:"permissions"`
}

func newRole() resource.Resource {
	return &declared[roleModel, *roleModel, api.RoleRequest, api.Role]{
		kind: "role", one: "role", idOf: []string{"name"},
		about:      "A custom role of a namespace: a named set of permissions for API keys. A change applies to all keys with the role.",
		settings:   roleSettings,
		attributes: attributes{"name": "name", "permissions": "permissions"},
		create:     createRole,
		get:        getRole,
		put:        putRole,
		remove:     deleteRole,
	}
}

// cloudOf returns the client of the control plane for the namespace that c names. It has the URL and the
// token of c, because a cloud has one URL. A client that names no namespace is one of a node, which keeps its
// roles itself; for it cloud is nil.
func cloudOf(c *client.Client) (cloud *client.Cloud, namespace string) {
	if namespace = c.NamedNamespace(); namespace == "" {
		return nil, ""
	}
	return &client.Cloud{Client: c}, namespace
}

func createRole(c *client.Client, ctx context.Context, req api.RoleRequest) (api.Role, error) {
	if cloud, ns := cloudOf(c); cloud != nil {
		return cloud.CreateNamespaceRole(ctx, ns, req)
	}
	return c.CreateRole(ctx, req)
}

func getRole(c *client.Client, ctx context.Context, name string, r client.Read) (api.Role, error) {
	if cloud, ns := cloudOf(c); cloud != nil {
		return cloud.NamespaceRole(ctx, ns, name)
	}
	return c.Role(ctx, name, r)
}

func putRole(c *client.Client, ctx context.Context, name string, req api.RoleRequest, version int64) (api.Role, error) {
	if cloud, ns := cloudOf(c); cloud != nil {
		return cloud.PutNamespaceRole(ctx, ns, name, req, version)
	}
	return c.PutRole(ctx, name, req, version)
}

func deleteRole(c *client.Client, ctx context.Context, name string, version int64) error {
	if cloud, ns := cloudOf(c); cloud != nil {
		return cloud.DeleteNamespaceRole(ctx, ns, name, version)
	}
	return c.DeleteRole(ctx, name, version)
}

func roleSettings() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators: []validator.String{
				stringvalidator.RegexMatches(regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9._-]{1,%d}$`, maxRoleName)), "1 to 64 letters, digits, dots, underscores and hyphens"),
				stringvalidator.NoneOf(builtInRoles...), isReachable,
			},
			Description: "Name of the role, to which keys refer; not the name of a built-in role. A role that a key uses cannot be deleted.",
		},
		"permissions": schema.SetAttribute{
			ElementType: types.StringType, Required: true,
			Validators:  []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.OneOf(rolePermissions...))},
			Description: "Permissions of the role, such as job.read. The provider's key must have all of them.",
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
