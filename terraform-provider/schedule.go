package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// scheduleResource is corvo_schedule, which creates jobs at set times. An update sends the
// version that Terraform read, so that it does not undo a change that Terraform has not
// seen.
type scheduleResource struct{ configured }

var (
	_ resource.ResourceWithConfigure   = (*scheduleResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*scheduleResource)(nil)
	_ resource.ResourceWithImportState = (*scheduleResource)(nil)
)

type scheduleModel struct {
	ID         types.String `tfsdk:"id"`
	Namespace  types.String `tfsdk:"namespace"`
	Name       types.String `tfsdk:"name"`
	Queue      types.String `tfsdk:"queue"`
	Cron       types.String `tfsdk:"cron"`
	Timezone   types.String `tfsdk:"timezone"`
	Payload    types.String `tfsdk:"payload"`
	UniqueKey  types.String `tfsdk:"unique_key"`
	MaxRetries types.Int64  `tfsdk:"max_retries"`
	Priority   types.String `tfsdk:"priority"`
	Missed     types.String `tfsdk:"missed"`
	Jitter     types.String `tfsdk:"jitter"`
	Paused     types.Bool   `tfsdk:"paused"`
	Tags       types.Map    `tfsdk:"tags"`
	Headers    types.Map    `tfsdk:"headers"`
	NextRun    types.String `tfsdk:"next_run"`
	Version    types.Int64  `tfsdk:"version"`
}

func (r *scheduleResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_schedule"
}

func (r *scheduleResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = scheduleSchema()
}

func (m *scheduleModel) request(ctx context.Context, to *diag.Diagnostics) api.ScheduleRequest {
	req := api.ScheduleRequest{
		Name:       m.Name.ValueString(),
		Queue:      m.Queue.ValueString(),
		Cron:       m.Cron.ValueString(),
		Timezone:   m.Timezone.ValueString(),
		Payload:    []byte(m.Payload.ValueString()),
		UniqueKey:  m.UniqueKey.ValueString(),
		MaxRetries: given(m.MaxRetries),
		Priority:   api.Priority(m.Priority.ValueString()),
		Missed:     m.Missed.ValueString(),
		Jitter:     api.Duration(m.Jitter.ValueString()),
		Paused:     m.Paused.ValueBoolPointer(),
	}
	to.Append(m.Tags.ElementsAs(ctx, &req.Tags, false)...)
	to.Append(m.Headers.ElementsAs(ctx, &req.Headers, false)...)
	return req
}

// observe copies the server's values into the model. It keeps the model's spelling of an
// equal value.
func (m *scheduleModel) observe(ctx context.Context, s api.Schedule, to *diag.Diagnostics) {
	m.ID = types.StringValue(s.ID)
	m.Name = types.StringValue(s.Name)
	m.Queue = types.StringValue(s.Queue)
	m.Cron = alike(sameCron).observe(m.Cron, s.Cron)
	m.Timezone = types.StringValue(s.Timezone)
	m.Payload = alike(sameJSON).observe(m.Payload, string(s.Payload))
	m.UniqueKey = types.StringPointerValue(s.UniqueKey)
	m.MaxRetries = types.Int64Value(int64(s.MaxRetries))
	m.Priority = types.StringValue(string(api.PriorityOf(s.Priority)))
	m.Missed = types.StringValue(s.Missed)
	m.Jitter = alike(sameDuration).observe(m.Jitter, string(s.Jitter))
	m.Paused = types.BoolValue(s.Paused)
	m.Tags = observeStrings(ctx, m.Tags, s.Tags, to)
	m.Headers = observeStrings(ctx, m.Headers, s.Headers, to)
	m.NextRun = types.StringPointerValue((*string)(s.NextRun))
	m.Version = types.Int64Value(s.Version)
}

// observeStrings converts an object of strings for the state. An empty object stays null or
// empty, as in the state before.
func observeStrings(ctx context.Context, prior types.Map, now api.Strings, to *diag.Diagnostics) types.Map {
	if len(now) == 0 && prior.IsNull() {
		return types.MapNull(types.StringType)
	}
	all, diags := types.MapValueFrom(ctx, types.StringType, map[string]string(now))
	to.Append(diags...)
	return all
}

func (r *scheduleResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m scheduleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	body := m.request(ctx, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	made, err := r.write(ctx, m, func(ctx context.Context, c *client.Client) (api.Schedule, error) {
		return c.CreateSchedule(ctx, body)
	})
	if err != nil {
		report(&resp.Diagnostics, "create schedule "+m.Name.ValueString(), err, scheduleAttributes)
		return
	}
	m.observe(ctx, made, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// write does a write until its outcome is known. It repeats the request with one
// idempotency key, and an interrupt of Terraform does not cancel it.
func (r *scheduleResource) write(ctx context.Context, m scheduleModel, do func(context.Context, *client.Client) (api.Schedule, error)) (api.Schedule, error) {
	ctx, cancel := finish(ctx)
	defer cancel()
	c, err := r.session.dataPlane(ctx, m.Namespace.ValueString())
	if err != nil {
		return api.Schedule{}, err
	}
	return do(client.WithIdempotencyKey(ctx, newIdempotencyKey()), c)
}

func (r *scheduleResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m scheduleModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var s api.Schedule
	c, err := r.session.dataPlane(ctx, m.Namespace.ValueString())
	if err == nil {
		s, err = c.Schedule(ctx, m.ID.ValueString(), client.Read{Strong: true})
	}
	switch {
	case gone(err):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		report(&resp.Diagnostics, "read schedule "+m.ID.ValueString(), err, nil)
		return
	}
	m.observe(ctx, s, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// ModifyPlan plans the namespace and the attributes that every write changes. If no other
// attribute changes, it plans no write, because the framework mistook another spelling for
// a change.
func (r *scheduleResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if r.session == nil || req.Plan.Raw.IsNull() {
		return
	}
	r.session.planNamespace(ctx, req, resp)
	if resp.Diagnostics.HasError() || req.State.Raw.IsNull() {
		return
	}
	var next types.String
	var version types.Int64
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("next_run"), &next)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("version"), &version)...)
	plan := func() {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("next_run"), next)...)
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("version"), version)...)
	}
	plan()
	if !resp.Plan.Raw.Equal(req.State.Raw) {
		next, version = types.StringUnknown(), types.Int64Unknown()
		plan()
	}
}

func (r *scheduleResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, prior scheduleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	body := m.request(ctx, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	what := "update schedule " + m.Name.ValueString()
	now, err := r.write(ctx, m, func(ctx context.Context, c *client.Client) (api.Schedule, error) {
		return c.PutSchedule(ctx, prior.ID.ValueString(), body, prior.Version.ValueInt64())
	})
	switch {
	case errors.Is(err, errOvertaken):
		reportOvertaken(&resp.Diagnostics, what, err)
		return
	case err != nil:
		report(&resp.Diagnostics, what, err, scheduleAttributes)
		return
	}
	m.observe(ctx, now, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Delete sends no version, because the schedule must go whatever changed in it.
func (r *scheduleResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m scheduleModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	_, err := r.write(ctx, m, func(ctx context.Context, c *client.Client) (api.Schedule, error) {
		return api.Schedule{}, c.DeleteSchedule(ctx, m.ID.ValueString(), 0)
	})
	if err != nil && !gone(err) {
		report(&resp.Diagnostics, "delete schedule "+m.Name.ValueString(), err, scheduleAttributes)
	}
}

// ImportState takes ID or NAMESPACE/ID.
func (r *scheduleResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	r.session.importInNamespace(ctx, "id", req, resp)
}
