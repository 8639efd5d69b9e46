package provider

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// declared is a Terraform resource for the declared resources of a namespace: limit rules,
// providers, prices, budgets, policies, webhooks and alert rules. The server creates,
// reads, replaces and deletes all of them in one way. M is the model in the state, Req the
// request and Resp the response.
type declared[M any, P declaredModel[M, Req, Resp], Req, Resp any] struct {
	configured

	kind       string // part of the type name after the provider's name
	one        string // name for messages
	about      string // description of the schema
	settings   func() map[string]schema.Attribute
	attributes attributes
	// idOf names the attributes that form the id; empty if the server chooses the id.
	idOf []string

	create func(c *client.Client, ctx context.Context, req Req) (Resp, error)
	get    func(c *client.Client, ctx context.Context, id string, r client.Read) (Resp, error)
	put    func(c *client.Client, ctx context.Context, id string, req Req, version int64) (Resp, error)
	remove func(c *client.Client, ctx context.Context, id string, version int64) error

	// The following functions may be nil.

	// complete adds write-only values from the configuration to a request. prior is the
	// state, nil for a new resource.
	complete   func(ctx context.Context, config tfsdk.Config, prior, plan *M, req *Req, to *diag.Diagnostics)
	validators []resource.ConfigValidator
}

// declaredModel is the model of one declared resource in the state.
type declaredModel[M, Req, Resp any] interface {
	*M
	place() *placed
	request(ctx context.Context, to *diag.Diagnostics) Req
	// observe copies the server's values into the model. It keeps the model's spelling of an
	// equal value.
	observe(ctx context.Context, now Resp, to *diag.Diagnostics)
}

// placed has the attributes that every declared resource has in the state.
type placed struct {
	ID        types.String `tfsdk:"id"`
	Namespace types.String `tfsdk:"namespace"`
	Version   types.Int64  `tfsdk:"version"`
}

func (p *placed) place() *placed { return p }

func (p *placed) observed(id string, version int64) {
	p.ID, p.Version = types.StringValue(id), types.Int64Value(version)
}

func (r *declared[M, P, Req, Resp]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind
}

func (r *declared[M, P, Req, Resp]) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	all := r.settings()
	about := "Id of the resource."
	if len(r.idOf) > 0 {
		about = "Id of the resource: " + strings.Join(r.idOf, "/") + "."
	}
	all["id"] = schema.StringAttribute{
		Computed:      true,
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		Description:   about,
	}
	all["namespace"] = schema.StringAttribute{
		Optional: true, Computed: true,
		Validators:  []validator.String{stringvalidator.LengthAtLeast(1)},
		Description: namespaceDescription + " Without both: the API key's namespace.",
	}
	all["version"] = schema.Int64Attribute{
		Computed:    true,
		Description: "Version of the resource, which every change increases. An update is refused if another change came between.",
	}
	resp.Schema = schema.Schema{Description: r.about, Attributes: all}
}

func (r *declared[M, P, Req, Resp]) ConfigValidators(context.Context) []resource.ConfigValidator {
	return r.validators
}

// ModifyPlan plans the namespace, and a new version if any attribute changes. A different
// spelling of the same value is not a change.
func (r *declared[M, P, Req, Resp]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if r.session == nil || req.Plan.Raw.IsNull() {
		return
	}
	r.session.planNamespace(ctx, req, resp)
	if resp.Diagnostics.HasError() || req.State.Raw.IsNull() {
		return
	}
	at := path.Root("version")
	var version types.Int64
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, at, &version)...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, at, version)...)
	if !resp.Plan.Raw.Equal(req.State.Raw) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, at, types.Int64Unknown())...)
	}
}

// write does a write until its outcome is known. It repeats the request with one
// idempotency key, and an interrupt of Terraform does not cancel it.
func (r *declared[M, P, Req, Resp]) write(ctx context.Context, of *placed, do func(context.Context, *client.Client) error) error {
	ctx, cancel := finish(ctx)
	defer cancel()
	c, err := r.session.dataPlane(ctx, of.Namespace.ValueString())
	if err != nil {
		return err
	}
	return do(client.WithIdempotencyKey(ctx, newIdempotencyKey()), c)
}

// body builds the request for a plan.
func (r *declared[M, P, Req, Resp]) body(ctx context.Context, config tfsdk.Config, prior, plan *M, to *diag.Diagnostics) Req {
	body := P(plan).request(ctx, to)
	if r.complete != nil && !to.HasError() {
		r.complete(ctx, config, prior, plan, &body, to)
	}
	return body
}

func (r *declared[M, P, Req, Resp]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	body := r.body(ctx, req.Config, nil, &m, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	var made Resp
	err := r.write(ctx, P(&m).place(), func(ctx context.Context, c *client.Client) (err error) {
		made, err = r.create(c, ctx, body)
		return err
	})
	switch {
	case api.CodeOf(err) == api.Conflict:
		resp.Diagnostics.AddError("Cannot create "+r.one+": "+string(api.Conflict), err.Error()+". To manage the existing one, import it with `terraform import`.")
		return
	case err != nil:
		report(&resp.Diagnostics, "create "+r.one, err, r.attributes)
		return
	}
	P(&m).observe(ctx, made, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

func (r *declared[M, P, Req, Resp]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	at := P(&m).place()
	var now Resp
	c, err := r.session.dataPlane(ctx, at.Namespace.ValueString())
	if err == nil {
		now, err = r.get(c, ctx, at.ID.ValueString(), client.Read{Strong: true})
	}
	switch {
	case gone(err):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		report(&resp.Diagnostics, "read "+r.one+" "+at.ID.ValueString(), err, nil)
		return
	}
	P(&m).observe(ctx, now, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Update sends the version that Terraform read, so that it does not undo a change that
// Terraform has not seen.
func (r *declared[M, P, Req, Resp]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, prior M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	body := r.body(ctx, req.Config, &prior, &m, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	was := P(&prior).place()
	what := "update " + r.one + " " + was.ID.ValueString()
	var now Resp
	err := r.write(ctx, P(&m).place(), func(ctx context.Context, c *client.Client) (err error) {
		now, err = r.put(c, ctx, was.ID.ValueString(), body, was.Version.ValueInt64())
		return err
	})
	switch {
	case errors.Is(err, errOvertaken):
		reportOvertaken(&resp.Diagnostics, what, err)
		return
	case err != nil:
		report(&resp.Diagnostics, what, err, r.attributes)
		return
	}
	P(&m).observe(ctx, now, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Delete sends no version, because the resource must go whatever changed in it.
func (r *declared[M, P, Req, Resp]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	at := P(&m).place()
	err := r.write(ctx, at, func(ctx context.Context, c *client.Client) error {
		return r.remove(c, ctx, at.ID.ValueString(), 0)
	})
	if err != nil && !gone(err) {
		report(&resp.Diagnostics, "delete "+r.one+" "+at.ID.ValueString(), err, r.attributes)
	}
}

// ImportState takes ID or NAMESPACE/ID. An id of several parts starts with the namespace if and only if the
// provider has a cloud token, because the parts do not show whether the first is a namespace.
func (r *declared[M, P, Req, Resp]) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if len(r.idOf) < 2 {
		r.session.importInNamespace(ctx, "id", req, resp)
		return
	}
	form, id, namespace := strings.ToUpper(strings.Join(r.idOf, "/")), req.ID, types.StringNull()
	if r.session.cloudToken.set() {
		form = "NAMESPACE/" + form
		var before string
		before, id, _ = strings.Cut(req.ID, "/")
		namespace = types.StringValue(before)
	}
	if parts := strings.SplitN(req.ID, "/", strings.Count(form, "/")+1); len(parts) <= strings.Count(form, "/") || slices.Contains(parts, "") {
		resp.Diagnostics.AddError("Cannot import "+req.ID, "Write "+form+".")
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("namespace"), namespace)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), id)...)
}
