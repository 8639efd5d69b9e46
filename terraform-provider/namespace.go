package provider

import (
	"context"
	"regexp"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// The defaults of the timeouts of corvo_namespace.
const (
	namespaceCreateLimit = 10 * time.Minute
	namespaceDeleteLimit = 20 * time.Minute
)

var namespaceName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// namespaceResource is corvo_namespace. It creates a namespace in two steps: the control
// plane accepts the request and names an operation, which private state stores, and then
// the resource waits for the operation. If Terraform is interrupted between the two, the
// next apply continues as an update that waits.
type namespaceResource struct{ configured }

var (
	_ resource.ResourceWithConfigure   = (*namespaceResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*namespaceResource)(nil)
	_ resource.ResourceWithImportState = (*namespaceResource)(nil)
)

type namespaceModel struct {
	ID                 types.String   `tfsdk:"id"`
	Name               types.String   `tfsdk:"name"`
	Region             types.String   `tfsdk:"region"`
	Tier               types.String   `tfsdk:"tier"`
	Replicas           types.Int64    `tfsdk:"replicas"`
	Shards             types.Int64    `tfsdk:"shards"`
	DeletionProtection types.Bool     `tfsdk:"deletion_protection"`
	Endpoint           types.String   `tfsdk:"endpoint"`
	Timeouts           timeouts.Value `tfsdk:"timeouts"`
}

var namespaceAttributes = attributes{
	"name":                     "name",
	"spec.region":              "region",
	"spec.tier":                "tier",
	"spec.replicas":            "replicas",
	"spec.shards":              "shards",
	"spec.deletion_protection": "deletion_protection",
	"deletion_protection":      "deletion_protection",
}

func (r *namespaceResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_namespace"
}

func (r *namespaceResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	text := []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplace()}
	number := []planmodifier.Int64{int64planmodifier.UseStateForUnknown(), int64planmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		Description: "A cloud namespace with its own data, queues, keys and usage.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Description:   "Id of the namespace. Refer to the namespace by its id, so that its resources are replaced together with it.",
			},
			"name": schema.StringAttribute{
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{stringvalidator.RegexMatches(namespaceName, "a lower-case letter, then at most 62 lower-case letters, digits and hyphens")},
				Description:   "Name of the namespace, unique in the organisation. A change replaces the namespace with all its data.",
			},
			"region": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: text,
				Validators:  []validator.String{stringvalidator.LengthAtLeast(1)},
				Description: "Region of the data. Default: the cloud's first region.",
			},
			"tier": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: text,
				Validators:  []validator.String{stringvalidator.OneOf("shared", "dedicated")},
				Description: "Tier: shared (default) or dedicated. Hosts of a dedicated namespace serve no other namespace.",
			},
			"replicas": schema.Int64Attribute{
				Optional: true, Computed: true, PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
				Validators:  []validator.Int64{int64validator.OneOf(1, 3, 5)},
				Description: "Number of hosts with a copy of the data: 1 (default), 3 or 5. A change takes effect in the background, while the namespace serves.",
			},
			"shards": schema.Int64Attribute{
				Optional: true, Computed: true, PlanModifiers: number,
				Validators:  []validator.Int64{int64validator.AtLeast(1)},
				Description: "Number of shards. Default: 1.",
			},
			"deletion_protection": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "Whether the namespace cannot be deleted. Default: false.",
			},
			"endpoint": schema.StringAttribute{
				Computed:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Description:   "URL of the namespace's data plane.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, Delete: true,
				CreateDescription: "Longest wait until the namespace is ready. Default: 10m.",
				DeleteDescription: "Longest wait until the data is deleted. Default: 20m.",
			}),
		},
	}
}

// spec builds the spec of a plan. The API has defaults for omitted fields.
func (m *namespaceModel) spec() *api.NewNamespaceSpec {
	return &api.NewNamespaceSpec{
		Region:             m.Region.ValueString(),
		Tier:               m.Tier.ValueString(),
		Replicas:           given(m.Replicas),
		Shards:             given(m.Shards),
		DeletionProtection: m.DeletionProtection.ValueBoolPointer(),
	}
}

// given returns a configured number, which may be 0, or nil for an omitted one.
func given(n types.Int64) *int {
	if n.IsNull() || n.IsUnknown() {
		return nil
	}
	v := int(n.ValueInt64())
	return &v
}

func (m *namespaceModel) observe(ns api.Namespace) {
	m.ID = types.StringValue(ns.ID)
	m.Name = types.StringValue(ns.Name)
	m.Region = types.StringValue(ns.Spec.Region)
	m.Tier = types.StringValue(ns.Spec.Tier)
	m.Replicas = types.Int64Value(int64(ns.Spec.Replicas))
	m.Shards = types.Int64Value(int64(ns.Spec.Shards))
	m.DeletionProtection = types.BoolValue(ns.Spec.DeletionProtection)
	m.Endpoint = types.StringValue(ns.Status.Endpoint)
}

// begun sets the model of a namespace that has only an id yet. Values that the control
// plane chooses are null until they are read.
func (m *namespaceModel) begun(id string) {
	m.ID = types.StringValue(id)
	m.Endpoint = types.StringNull()
	if m.Region.IsUnknown() {
		m.Region = types.StringNull()
	}
	if m.Tier.IsUnknown() {
		m.Tier = types.StringNull()
	}
	if m.Replicas.IsUnknown() {
		m.Replicas = types.Int64Null()
	}
	if m.Shards.IsUnknown() {
		m.Shards = types.Int64Null()
	}
}

func (r *namespaceResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m namespaceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	limit, diags := m.Timeouts.Create(ctx, namespaceCreateLimit)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	what := "create namespace " + m.Name.ValueString()
	cloud, err := r.session.cloud()
	if err != nil {
		report(&resp.Diagnostics, what, err, nil)
		return
	}
	op, err := r.begin(ctx, cloud, m)
	if err != nil {
		report(&resp.Diagnostics, what, err, namespaceAttributes)
		return
	}
	// From here on the namespace is in the state, whatever fails later.
	m.begun(op.Resource.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	resp.Diagnostics.Append(remember(ctx, resp.Private, op.ID)...)
	if resp.Diagnostics.HasError() || !r.await(ctx, cloud, op.ID, limit, waiting{what, true, resp.Private, &resp.Diagnostics}) {
		return
	}
	ns, err := cloud.Namespace(ctx, op.Resource.ID)
	if err != nil {
		report(&resp.Diagnostics, what, err, nil)
		return
	}
	m.observe(ns)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// begin sends the create of a namespace to the control plane.
func (r *namespaceResource) begin(ctx context.Context, cloud *client.Cloud, m namespaceModel) (api.Operation, error) {
	ctx, cancel := finish(ctx)
	defer cancel()
	org, err := r.session.organisation(ctx, cloud)
	if err != nil {
		return api.Operation{}, err
	}
	ctx = client.WithIdempotencyKey(ctx, newIdempotencyKey())
	return cloud.CreateNamespace(ctx, org, api.CreateNamespaceRequest{Name: m.Name.ValueString(), Spec: m.spec()})
}

func (r *namespaceResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m namespaceModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	cloud, err := r.session.cloud()
	var ns api.Namespace
	if err == nil {
		ns, err = cloud.Namespace(ctx, m.ID.ValueString())
	}
	switch {
	case gone(err) || (err == nil && ns.Status.Phase == api.NamespaceDeleting):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		report(&resp.Diagnostics, "read namespace "+m.ID.ValueString(), err, nil)
		return
	}
	operation := ""
	if ns.Status.Phase == api.NamespaceProvisioning {
		operation = ns.Status.Operation
	}
	resp.Diagnostics.Append(remember(ctx, resp.Private, operation)...)
	m.observe(ns)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// ModifyPlan plans an update that waits, if the create of the namespace is unfinished.
func (r *namespaceResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	operation, diags := remembered(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if operation != "" {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("endpoint"), types.StringUnknown())...)
	}
}

func (r *namespaceResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, prior namespaceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	limit, diags := m.Timeouts.Create(ctx, namespaceCreateLimit)
	resp.Diagnostics.Append(diags...)
	operation, diags := remembered(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	what := "update namespace " + m.Name.ValueString()
	cloud, err := r.session.cloud()
	if err != nil {
		report(&resp.Diagnostics, what, err, nil)
		return
	}
	id := prior.ID.ValueString()
	if operation != "" && !r.await(ctx, cloud, operation, limit, waiting{what, false, resp.Private, &resp.Diagnostics}) {
		return
	}
	var ns api.Namespace
	if m.DeletionProtection.Equal(prior.DeletionProtection) && m.Replicas.Equal(prior.Replicas) {
		ns, err = cloud.Namespace(ctx, id)
	} else {
		ns, err = cloud.UpdateNamespace(ctx, id, api.UpdateNamespaceRequest{Spec: &api.NewNamespaceSpec{
			DeletionProtection: m.DeletionProtection.ValueBoolPointer(), Replicas: given(m.Replicas),
		}}, 0)
	}
	if err != nil {
		report(&resp.Diagnostics, what, err, namespaceAttributes)
		return
	}
	r.session.forgetNamespace(id)
	m.observe(ns)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *namespaceResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m namespaceModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	limit, diags := m.Timeouts.Delete(ctx, namespaceDeleteLimit)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	what := "delete namespace " + m.Name.ValueString()
	cloud, err := r.session.cloud()
	if err != nil {
		report(&resp.Diagnostics, what, err, nil)
		return
	}
	r.session.forgetNamespace(m.ID.ValueString())
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// For a namespace that is being deleted, the answer names the running operation.
	op, err := cloud.DeleteNamespace(ctx, m.ID.ValueString(), 0)
	if err == nil {
		_, err = cloud.WaitOperation(ctx, op.ID)
	}
	if err != nil && !gone(err) {
		report(&resp.Diagnostics, what, err, namespaceAttributes)
	}
}

// ImportState takes an id or a name, because the read that follows accepts both.
func (r *namespaceResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
