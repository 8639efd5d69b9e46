package provider

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// queueResource is corvo_queue, the settings of a queue. It adopts an existing queue,
// because the first job creates its queue.
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
	RateLimit      types.Int64  `tfsdk:"rate_limit"`
	RateWindowMs   types.Int64  `tfsdk:"rate_window_ms"`
	MaxLength      types.Int64  `tfsdk:"max_length"`
	OnFull         types.String `tfsdk:"on_full"`
	PriorityAgeing types.String `tfsdk:"priority_ageing"`
	ModelProvider  types.String `tfsdk:"model_provider"`

	Retention *queueRetentionModel `tfsdk:"retention"`
	Defaults  *queueDefaultsModel  `tfsdk:"defaults"`
}

var isQueueName = stringvalidator.All(stringvalidator.RegexMatches(regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`), "1 to 128 letters, digits, dots, underscores, colons and hyphens"), isReachable)

// isReachable refuses names that a URL path cannot contain.
var isReachable = stringvalidator.NoneOf(".", "..")

var queueAttributes = attributes{
	"name":                          "name",
	"queue":                         "name",
	"max_concurrency":               "max_concurrency",
	"paused":                        "paused",
	"rate_limit":                    "rate_limit",
	"rate_window_ms":                "rate_window_ms",
	"max_length":                    "max_length",
	"on_full":                       "on_full",
	"priority_ageing":               "priority_ageing",
	"provider":                      "model_provider",
	"retention.completed":           "retention.completed",
	"retention.dead":                "retention.dead",
	"retention.cancelled":           "retention.cancelled",
	"defaults.priority":             "defaults.priority",
	"defaults.max_retries":          "defaults.max_retries",
	"defaults.retry_backoff":        "defaults.retry_backoff",
	"defaults.retry_base_delay":     "defaults.retry_base_delay",
	"defaults.retry_max_delay":      "defaults.retry_max_delay",
	"defaults.retry_jitter_percent": "defaults.retry_jitter_percent",
	"defaults.expire_after":         "defaults.expire_after",
}

func (r *queueResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_queue"
}

func (r *queueResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "A queue with its settings. An existing queue is adopted.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{isQueueName},
				Description:   "Name of the queue.",
			},
			"namespace": schema.StringAttribute{
				Optional: true, Computed: true,
				Validators:  []validator.String{stringvalidator.LengthAtLeast(1)},
				Description: namespaceDescription + " Without both: the API key's namespace.",
			},
			"max_concurrency": schema.Int64Attribute{
				Optional:    true,
				Validators:  []validator.Int64{int64validator.Between(1, maxConcurrency)},
				Description: "Limit on active jobs. Default: no limit.",
			},
			"paused": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "Whether fetches from the queue stop; enqueues go on. Default: false.",
			},
			"rate_limit": schema.Int64Attribute{
				Optional:    true,
				Validators:  []validator.Int64{int64validator.Between(1, maxRateLimit), int64validator.AlsoRequires(path.MatchRoot("rate_window_ms"))},
				Description: "Limit on jobs started in any rate_window_ms. Default: no limit.",
			},
			"rate_window_ms": schema.Int64Attribute{
				Optional:    true,
				Validators:  []validator.Int64{int64validator.Between(minRateWindow.Milliseconds(), maxRateWindow.Milliseconds()), int64validator.AlsoRequires(path.MatchRoot("rate_limit"))},
				Description: "Window of rate_limit in milliseconds: 1 s to 24 h.",
			},
			"max_length": schema.Int64Attribute{
				Optional:    true,
				Validators:  []validator.Int64{int64validator.Between(1, maxQueueLength)},
				Description: "Limit on waiting jobs. Default: no limit.",
			},
			"on_full": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(api.OnFullReject),
				Validators:  []validator.String{stringvalidator.OneOf(api.OnFullReject, api.OnFullDropOldest)},
				Description: "Action above max_length: reject (default) refuses the new job, drop_oldest drops the oldest waiting job.",
			},
			"priority_ageing": schema.StringAttribute{
				Optional: true, PlanModifiers: []planmodifier.String{alike(sameDuration)},
				Validators:  []validator.String{isDurationWithin(time.Millisecond, maxAgeing)},
				Description: `Waiting time that raises a job by one priority, such as "10m": at most 168h. Default: never.`,
			},
			"model_provider": schema.StringAttribute{
				Optional: true, Validators: []validator.String{isProviderName},
				Description: "Name of the corvo_model_provider of jobs that name none. Default: none.",
			},
			"retention": queueRetentionAttribute(),
			"defaults":  queueDefaultsAttribute(),
		},
	}
}

// observe copies the server's settings into the model.
func (m *queueModel) observe(q api.Queue) {
	m.Paused = types.BoolValue(q.Paused)
	m.MaxConcurrency = limit(q.MaxConcurrency)
	m.RateLimit, m.RateWindowMs = limit(q.RateLimit), limit(q.RateWindowMs)
	m.MaxLength = limit(q.MaxLength)
	m.OnFull = types.StringValue(q.OnFull)
	m.PriorityAgeing = observeMs(m.PriorityAgeing, q.PriorityAgeingMs)
	m.ModelProvider = types.StringPointerValue(q.Provider)
	m.Retention = m.Retention.observe(q.Retention)
	m.Defaults = m.Defaults.observe(q.Defaults)
}

// limit converts a limit for the state: 0 becomes null, because it means no limit.
func limit[N int | int64](n *N) types.Int64 {
	if n == nil || *n == 0 {
		return types.Int64Null()
	}
	return types.Int64Value(int64(*n))
}

func (m *queueModel) request() api.PutQueueRequest {
	return api.PutQueueRequest{
		Paused:         m.Paused.ValueBoolPointer(),
		MaxConcurrency: given(m.MaxConcurrency),
		RateLimit:      given(m.RateLimit),
		RateWindowMs:   m.RateWindowMs.ValueInt64Pointer(),
		MaxLength:      m.MaxLength.ValueInt64Pointer(),
		OnFull:         m.OnFull.ValueString(),
		PriorityAgeing: api.Duration(m.PriorityAgeing.ValueString()),
		Provider:       m.ModelProvider.ValueString(),
		Retention:      m.Retention.request(),
		Defaults:       m.Defaults.request(),
	}
}

// put replaces a queue's settings if their version is the given one; 0 = any version. It returns their new
// version.
func (r *queueResource) put(ctx context.Context, m queueModel, version int64) (int64, error) {
	ctx, cancel := finish(ctx)
	defer cancel()
	c, err := r.session.dataPlane(ctx, m.Namespace.ValueString())
	if err != nil {
		return 0, err
	}
	var q api.Queue
	if version == 0 {
		q, err = c.PutQueue(ctx, m.Name.ValueString(), m.request())
	} else {
		q, err = c.PutQueueAt(ctx, m.Name.ValueString(), m.request(), version)
	}
	return q.Version, err
}

// versionKey is the name in private state for the version of the settings in the state. The
// version is not an attribute, because it would differ in every plan and tell users nothing.
const versionKey = "version"

// private is the framework's private state of a resource.
type private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

func setVersion(ctx context.Context, p private, version int64) diag.Diagnostics {
	return p.SetKey(ctx, versionKey, strconv.AppendInt(nil, version, 10))
}

// versionOf returns the version that setVersion stored, or 0 for an older state without one.
func versionOf(ctx context.Context, p private, to *diag.Diagnostics) int64 {
	text, diags := p.GetKey(ctx, versionKey)
	to.Append(diags...)
	if text == nil {
		return 0
	}
	version, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		to.AddError("Cannot read the version of the queue", "The private state is damaged ("+err.Error()+"). Import the queue again.")
	}
	return version
}

func (r *queueResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m queueModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	version, err := r.put(ctx, m, 0)
	if err != nil {
		report(&resp.Diagnostics, "create queue "+m.Name.ValueString(), err, queueAttributes)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	resp.Diagnostics.Append(setVersion(ctx, resp.Private, version)...)
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
	case gone(err) || (err == nil && q.Status == api.QueueDeleting):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		report(&resp.Diagnostics, "read queue "+m.Name.ValueString(), err, nil)
		return
	}
	m.observe(q)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	resp.Diagnostics.Append(setVersion(ctx, resp.Private, q.Version)...)
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
	version := versionOf(ctx, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	what := "update queue " + m.Name.ValueString()
	version, err := r.put(ctx, m, version)
	switch {
	case errors.Is(err, errOvertaken):
		reportOvertaken(&resp.Diagnostics, what, err)
		return
	case err != nil:
		report(&resp.Diagnostics, what, err, queueAttributes)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	resp.Diagnostics.Append(setVersion(ctx, resp.Private, version)...)
}

func (r *queueResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m queueModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.remove(ctx, m); err != nil && !gone(err) {
		report(&resp.Diagnostics, "delete queue "+m.Name.ValueString(), err, queueAttributes)
	}
}

// remove deletes a queue if all its jobs have settled. The server would delete other jobs
// too, and removing a resource from a configuration is not a decision about jobs.
func (r *queueResource) remove(ctx context.Context, m queueModel) error {
	c, err := r.session.dataPlane(ctx, m.Namespace.ValueString())
	if err != nil {
		return err
	}
	err = c.DeleteQueue(ctx, m.Name.ValueString(), true)
	if api.CodeOf(err) == api.StateConflict {
		return &configError{"it has jobs", fmt.Sprintf("%s, and apply again; or `terraform state rm` it to leave it as it is.", err.Error())}
	}
	return err
}

// ImportState takes NAME or NAMESPACE/NAME.
func (r *queueResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.session.importInNamespace(ctx, "name", req, resp)
}
