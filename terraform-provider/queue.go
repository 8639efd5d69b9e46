package provider

import (
	"context"
	"errors"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// queueResource is corvo_queue: the settings of a queue. A queue that exists is
// taken over, since queues come into being by the first job.
type queueResource struct{ configured }

var (
	_ resource.ResourceWithConfigure   = (*queueResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*queueResource)(nil)
	_ resource.ResourceWithImportState = (*queueResource)(nil)
)

type queueModel struct {
	Name           types.String `tfsdk:"name"`
	Namespace      types.String `tfsdk:"namespace"`
	MaxConcurrency types.Int64  `tfsdk:"max_concurrency"`
	Paused         types.Bool   `tfsdk:"paused"`
}

var queueName = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

var queueAttributes = attributes{
	"name":            "name",
	"queue":           "name",
	"max_concurrency": "max_concurrency",
	"paused":          "paused",
}

func (r *queueResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_queue"
}

func (r *queueResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "A queue and its settings. One that exists already is taken over.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{stringvalidator.RegexMatches(queueName, "1 to 128 letters, digits, dots, underscores, colons and hyphens")},
				Description:   "Its name.",
			},
			"namespace": schema.StringAttribute{
				Optional: true, Computed: true,
				Validators:  []validator.String{stringvalidator.LengthAtLeast(1)},
				Description: namespaceDescription + " Without either, the queue is that of the API key.",
			},
			"max_concurrency": schema.Int64Attribute{
				Optional:    true,
				Validators:  []validator.Int64{int64validator.AtLeast(1)},
				Description: "How many of its jobs run at once. Default: no limit.",
			},
			"paused": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "Whether fetches from it stop; jobs may still be added. Default: false.",
			},
		},
	}
}

// observe takes over what can change. A limit of 0 is none.
func (m *queueModel) observe(q api.Queue) {
	m.Paused = types.BoolValue(q.Paused)
	m.MaxConcurrency = types.Int64Null()
	if q.MaxConcurrency != nil && *q.MaxConcurrency > 0 {
		m.MaxConcurrency = types.Int64Value(int64(*q.MaxConcurrency))
	}
}

func (m *queueModel) request() api.PutQueueRequest {
	put := api.PutQueueRequest{Paused: m.Paused.ValueBoolPointer()}
	if !m.MaxConcurrency.IsNull() {
		most := int(m.MaxConcurrency.ValueInt64())
		put.MaxConcurrency = &most
	}
	return put
}

func (r *queueResource) put(ctx context.Context, m queueModel) error {
	ctx, cancel := finish(ctx)
	defer cancel()
	c, err := r.session.dataPlane(ctx, m.Namespace.ValueString())
	if err != nil {
		return err
	}
	_, err = c.PutQueue(ctx, m.Name.ValueString(), m.request())
	return err
}

func (r *queueResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m queueModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.put(ctx, m); err != nil {
		report(&resp.Diagnostics, "create queue "+m.Name.ValueString(), err, queueAttributes)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *queueResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m queueModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var q api.Queue
	c, err := r.session.dataPlane(ctx, m.Namespace.ValueString())
	if err == nil {
		q, err = c.Queue(ctx, m.Name.ValueString(), client.Read{Strong: true})
	}
	switch {
	case gone(err):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		report(&resp.Diagnostics, "read queue "+m.Name.ValueString(), err, nil)
		return
	}
	m.observe(q)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *queueResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if r.session == nil || req.Plan.Raw.IsNull() {
		return
	}
	r.session.planNamespace(ctx, req, resp)
}

func (r *queueResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m queueModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.put(ctx, m); err != nil {
		report(&resp.Diagnostics, "update queue "+m.Name.ValueString(), err, queueAttributes)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *queueResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m queueModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	what := "delete queue " + m.Name.ValueString()
	c, err := r.session.dataPlane(ctx, m.Namespace.ValueString())
	if err == nil {
		err = c.DeleteQueue(ctx, m.Name.ValueString())
	}
	var e *api.Error
	switch {
	case gone(err):
	case errors.As(err, &e) && (e.Code == api.StateConflict || e.Code == api.Conflict):
		resp.Diagnostics.AddError("Cannot "+what+": "+string(e.Code), e.Message+"\n\nTerraform deletes only a queue without jobs. Let its workers finish them, or clear the queue, and apply again; or `terraform state rm` it to leave it as it is.")
	case err != nil:
		report(&resp.Diagnostics, what, err, queueAttributes)
	}
}

// ImportState takes NAME or NAMESPACE/NAME.
func (r *queueResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.session.importInNamespace(ctx, "name", req, resp)
}
