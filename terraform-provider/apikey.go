package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// apiKeyResource is corvo_api_key, a key whose secret another source makes. The control
// plane gets its id and hash and the state its id, so that neither holds the secret. A new
// secret_wo_version rotates the key.
type apiKeyResource struct{ configured }

var (
	_ resource.ResourceWithConfigure   = (*apiKeyResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*apiKeyResource)(nil)
	_ resource.ResourceWithImportState = (*apiKeyResource)(nil)
)

type apiKeyModel struct {
	ID              types.String `tfsdk:"id"`
	Name            types.String `tfsdk:"name"`
	Namespace       types.String `tfsdk:"namespace"`
	Roles           types.Set    `tfsdk:"roles"`
	QueueScope      types.Set    `tfsdk:"queue_scope"`
	ExpiresAt       types.String `tfsdk:"expires_at"`
	SecretWO        types.String `tfsdk:"secret_wo"`
	SecretWOVersion types.Int64  `tfsdk:"secret_wo_version"`
	Overlap         types.String `tfsdk:"overlap"`
}

const (
	noOverlap   = "0s"
	defaultRole = "readonly"
)

// previousKey is the name in private state for the id of the key before the last
// rotation, which may still be valid.
const previousKey = "previous"

var apiKeyAttributes = attributes{
	"name":        "name",
	"roles":       "roles",
	"queue_scope": "queue_scope",
	"expires_at":  "expires_at",
	"overlap":     "overlap",
	"id":          "secret_wo",
	"hash":        "secret_wo",
}

func (r *apiKeyResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_api_key"
}

func (r *apiKeyResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "An API key of a cloud namespace. The ephemeral resource of the same name, or another source, makes its secret, which is stored in no state and no plan. The control plane receives only its hash.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Description:   "Id of the key, a part of its text. A rotation changes it.",
			},
			"name": schema.StringAttribute{
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Description:   "Name of the key.",
			},
			"namespace": schema.StringAttribute{
				Optional: true, Computed: true,
				Validators:  []validator.String{stringvalidator.LengthAtLeast(1)},
				Description: namespaceDescription,
			},
			"roles": schema.SetAttribute{
				ElementType: types.StringType,
				Optional:    true, Computed: true,
				Default:       setdefault.StaticValue(types.SetValueMust(types.StringType, []attr.Value{types.StringValue(defaultRole)})),
				PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()},
				Validators:    []validator.Set{setvalidator.SizeAtLeast(1)},
				Description:   "Roles of the key: admin, operator, worker or readonly. Default: readonly.",
			},
			"queue_scope": schema.SetAttribute{
				ElementType: types.StringType,
				Optional:    true, PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()},
				Validators:  []validator.Set{setvalidator.SizeAtLeast(1)},
				Description: "Names of the allowed queues, with * for any characters. Default: all queues.",
			},
			"expires_at": schema.StringAttribute{
				Optional: true, Validators: []validator.String{isTime},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplaceIf(otherTime, "another instant", "another instant")},
				Description:   "Time of expiry, such as 2027-01-01T00:00:00Z. Default: never.",
			},
			"secret_wo": schema.StringAttribute{
				Required: true, Sensitive: true, WriteOnly: true,
				Validators:  []validator.String{isSecret},
				Description: "Text of the key, write-only, such as ephemeral.corvo_api_key.<name>.secret. It is read when the key is created and when secret_wo_version changes.",
			},
			"secret_wo_version": schema.Int64Attribute{
				Required:    true,
				Description: "Version of the secret. A new value rotates the key: the text in secret_wo replaces it, and the old key stays valid for overlap. A key with an expiry is replaced without an overlap.",
			},
			"overlap": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(noOverlap),
				Validators:  []validator.String{isDuration},
				Description: "Remaining validity of the old key after a rotation, at most 168h. Default: 0s.",
			},
		},
	}
}

func otherTime(_ context.Context, req planmodifier.StringRequest, resp *stringplanmodifier.RequiresReplaceIfFuncResponse) {
	resp.RequiresReplace = !sameTime(req.StateValue.ValueString(), req.PlanValue.ValueString())
}

// ModifyPlan plans the namespace and the new id of a rotation. It plans no change for another spelling of the
// overlap or of the time of expiry.
func (r *apiKeyResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if r.session == nil || req.Plan.Raw.IsNull() {
		return
	}
	r.session.planNamespace(ctx, req, resp)
	if resp.Diagnostics.HasError() || req.State.Raw.IsNull() {
		return
	}
	var plan, prior apiKeyModel
	resp.Diagnostics.Append(resp.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if sameDuration(plan.Overlap.ValueString(), prior.Overlap.ValueString()) && !plan.Overlap.IsUnknown() {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("overlap"), prior.Overlap)...)
	}
	if !plan.ExpiresAt.Equal(prior.ExpiresAt) && sameTime(plan.ExpiresAt.ValueString(), prior.ExpiresAt.ValueString()) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("expires_at"), prior.ExpiresAt)...)
	}
	if !rotates(prior, plan) {
		return
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("id"), types.StringUnknown())...)
	// The server gives a rotated key the lifetime of the old one, so the new key would
	// expire at another time than the configuration says.
	if !plan.ExpiresAt.IsNull() {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("secret_wo_version"))
	}
}

// rotates reports whether a plan wants a new secret. An imported key has no version yet
// and keeps its secret.
func rotates(prior, plan apiKeyModel) bool {
	return !prior.SecretWOVersion.IsNull() && !plan.SecretWOVersion.Equal(prior.SecretWOVersion)
}

// secretOf reads the secret from the configuration, the only place that has it.
func secretOf(ctx context.Context, config interface {
	GetAttribute(context.Context, path.Path, any) diag.Diagnostics
}, to *diag.Diagnostics) client.Secret {
	at := path.Root("secret_wo")
	var text types.String
	to.Append(config.GetAttribute(ctx, at, &text)...)
	secret, err := client.ReadSecret(text.ValueString())
	if err != nil {
		to.AddAttributeError(at, "Not an API key", err.Error())
	}
	return secret
}

func (m *apiKeyModel) request(ctx context.Context, secret client.Secret, to *diag.Diagnostics) api.CreateCloudKeyRequest {
	req := api.CreateCloudKeyRequest{ID: secret.ID, Hash: secret.Hash}
	req.Name = m.Name.ValueString()
	req.ExpiresAt = api.Time(m.ExpiresAt.ValueString())
	to.Append(m.Roles.ElementsAs(ctx, &req.Roles, false)...)
	to.Append(m.QueueScope.ElementsAs(ctx, &req.QueueScope, false)...)
	return req
}

func (m *apiKeyModel) observe(ctx context.Context, k api.Key, to *diag.Diagnostics) {
	m.ID = types.StringValue(k.ID)
	m.Name = types.StringValue(k.Name)
	roles, diags := types.SetValueFrom(ctx, types.StringType, k.Roles)
	to.Append(diags...)
	m.Roles = roles
	m.QueueScope = types.SetNull(types.StringType)
	if len(k.QueueScope) > 0 {
		scope, diags := types.SetValueFrom(ctx, types.StringType, k.QueueScope)
		to.Append(diags...)
		m.QueueScope = scope
	}
	switch {
	case k.ExpiresAt == nil:
		m.ExpiresAt = types.StringNull()
	case !sameTime(m.ExpiresAt.ValueString(), string(*k.ExpiresAt)):
		m.ExpiresAt = types.StringValue(string(*k.ExpiresAt))
	}
}

func (r *apiKeyResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m apiKeyModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	secret := secretOf(ctx, req.Config, &resp.Diagnostics)
	body := m.request(ctx, secret, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	what := "create API key " + m.Name.ValueString()
	cloud, ns, err := r.keysOf(ctx, m)
	if err != nil {
		report(&resp.Diagnostics, what, err, nil)
		return
	}
	ctx, cancel := finish(ctx)
	defer cancel()
	key, err := cloud.CreateNamespaceKey(client.WithIdempotencyKey(ctx, newIdempotencyKey()), ns, body)
	if err != nil {
		report(&resp.Diagnostics, what, err, apiKeyAttributes)
		return
	}
	m.ID = types.StringValue(key.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// keysOf finds the control plane and the id of a key's namespace.
func (r *apiKeyResource) keysOf(ctx context.Context, m apiKeyModel) (*client.Cloud, string, error) {
	cloud, err := r.session.cloud()
	if err != nil {
		return nil, "", err
	}
	if m.Namespace.ValueString() == "" {
		return nil, "", &configError{"no namespace is named", "Set namespace in the resource or in the provider's configuration, or CORVO_NAMESPACE in the environment."}
	}
	ns, err := r.session.findNamespace(ctx, m.Namespace.ValueString())
	return cloud, ns.ID, err
}

func (r *apiKeyResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m apiKeyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var key api.Key
	cloud, ns, err := r.keysOf(ctx, m)
	if err == nil {
		key, err = cloud.NamespaceKey(ctx, ns, m.ID.ValueString())
	}
	switch {
	case gone(err) || (err == nil && !key.Enabled):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		report(&resp.Diagnostics, "read API key "+m.ID.ValueString(), err, nil)
		return
	}
	m.observe(ctx, key, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Update rotates the key, or only stores attributes that the server does not have.
func (r *apiKeyResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, prior apiKeyModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if rotates(prior, m) {
		secret := secretOf(ctx, req.Config, &resp.Diagnostics)
		if resp.Diagnostics.HasError() {
			return
		}
		id, err := r.rotate(ctx, m, prior.ID.ValueString(), secret)
		if err != nil {
			report(&resp.Diagnostics, "rotate API key "+m.Name.ValueString(), err, apiKeyAttributes)
			return
		}
		m.ID = types.StringValue(id)
		resp.Diagnostics.Append(keep(ctx, resp.Private, previousKey, prior.ID.ValueString())...)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *apiKeyResource) rotate(ctx context.Context, m apiKeyModel, old string, secret client.Secret) (id string, err error) {
	if secret.ID == old {
		return "", &configError{"secret_wo is the present key", fmt.Sprintf("A new secret_wo_version needs a new secret, but secret_wo is the text of key %s.", old)}
	}
	cloud, ns, err := r.keysOf(ctx, m)
	if err != nil {
		return "", err
	}
	ctx, cancel := finish(ctx)
	defer cancel()
	ctx = client.WithIdempotencyKey(ctx, newIdempotencyKey())
	key, err := cloud.RotateNamespaceKey(ctx, ns, old, api.RotateKeyRequest{Overlap: api.Duration(m.Overlap.ValueString()), ID: secret.ID, Hash: secret.Hash})
	return key.ID, err
}

// Delete revokes the key, and the key before it if that is still valid.
func (r *apiKeyResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m apiKeyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	previous, diags := kept(ctx, req.Private, previousKey)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	cloud, ns, err := r.keysOf(ctx, m)
	for _, id := range []string{previous, m.ID.ValueString()} {
		if err == nil && id != "" {
			if err = cloud.RevokeNamespaceKey(ctx, ns, id, 0); gone(err) {
				err = nil
			}
		}
	}
	if err != nil && !gone(err) {
		report(&resp.Diagnostics, "revoke API key "+m.Name.ValueString(), err, nil)
	}
}

// ImportState takes ID or NAMESPACE/ID. The key keeps its secret, because the first apply
// only stores secret_wo_version.
func (r *apiKeyResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.session.importInNamespace(ctx, "id", req, resp)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("overlap"), noOverlap)...)
}
