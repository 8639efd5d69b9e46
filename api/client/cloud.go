package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
)

// Cloud calls the cloud API of a control plane. It is safe for concurrent use and keeps no state besides
// its connections.
type Cloud struct{ *Client }

// NewCloud returns a client of a control plane, with a cloud token or an operator's key. It retries
// writes as WithKeyedWrites does, because they are few and important.
func NewCloud(endpoint, token string, opts ...Option) (*Cloud, error) {
	c, err := New(endpoint, token, append([]Option{WithKeyedWrites()}, opts...)...)
	if err != nil {
		return nil, err
	}
	return &Cloud{c}, nil
}

func cloudPath(parts ...string) string {
	path := "/cloud/v1"
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// send sends a call whose response is an R.
func send[R any](ctx context.Context, c *Client, k call) (R, error) {
	var out R
	k.out = &out
	_, err := c.do(ctx, k)
	return out, err
}

func get[R any](ctx context.Context, c *Client, path string) (R, error) {
	return send[R](ctx, c, call{method: http.MethodGet, path: path, repeat: repeatAlways})
}

// pageItems is the page size of lists, the largest that the control plane allows.
const pageItems = 1000

// all reads all pages of a list. query has the parameters of the list, or is nil. The function adds limit and
// cursor to query.
func all[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	items := []T{}
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(pageItems))
	for {
		page, err := get[api.Page[T]](ctx, c, path+"?"+query.Encode())
		if err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if page.Cursor == "" {
			return items, nil
		}
		query.Set("cursor", page.Cursor)
	}
}

// operationWait is the time that the control plane waits in one request for an operation.
const operationWait = 20 * time.Second

// WaitOperation waits until an operation has ended. If the operation failed, WaitOperation returns its error. If ctx ends
// first, the error says why the operation waits, if the control plane has said so.
func (c *Cloud) WaitOperation(ctx context.Context, id string) (api.Operation, error) {
	for why := ""; ; {
		op, err := c.AwaitOperation(ctx, id, operationWait)
		switch {
		case err != nil && ctx.Err() != nil && why != "":
			return op, fmt.Errorf("%w: the operation waits: %s", err, why)
		case err != nil || op.Status != api.OperationRunning:
			return op, err
		}
		why = op.Message
	}
}

// AwaitOperation waits until an operation has ended or wait is over, and returns the operation. It returns
// earlier if the control plane shuts down. The error is VALIDATION_ERROR if wait is longer than a minute. If
// the operation failed, AwaitOperation returns its error.
func (c *Cloud) AwaitOperation(ctx context.Context, id string, wait time.Duration) (api.Operation, error) {
	path := cloudPath("operations", id) + "?wait=" + wait.String()
	op, err := send[api.Operation](ctx, c.Client, call{method: http.MethodGet, path: path, repeat: repeatAlways, wait: wait})
	if err == nil && op.Status == api.OperationFailed && op.Error != nil {
		err = &api.Error{Code: op.Error.Code, Message: fmt.Sprintf("%s of %s: %s", op.Kind, op.Resource.Name, op.Error.Error)}
	}
	return op, err
}

// Operation returns the present state of an operation.
func (c *Cloud) Operation(ctx context.Context, id string) (api.Operation, error) {
	return get[api.Operation](ctx, c.Client, cloudPath("operations", id))
}

// Operations lists an organisation's operations, the newest first. With "" it lists those of the token's
// organisation; an operator must name one.
func (c *Cloud) Operations(ctx context.Context, org string) ([]api.Operation, error) {
	return all[api.Operation](ctx, c.Client, cloudPath("operations"), url.Values{"org": {org}})
}

// Orgs lists the organisations that the token may see.
func (c *Cloud) Orgs(ctx context.Context) ([]api.Org, error) {
	return all[api.Org](ctx, c.Client, cloudPath("orgs"), nil)
}

// Org returns an organisation, by id or name.
func (c *Cloud) Org(ctx context.Context, org string) (api.Org, error) {
	return get[api.Org](ctx, c.Client, cloudPath("orgs", org))
}

// CreateOrg creates an organisation. The error is CONFLICT if its name is taken. It needs an operator's key.
func (c *Cloud) CreateOrg(ctx context.Context, req api.CreateOrgRequest) (api.Org, error) {
	return send[api.Org](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs"), body: req, repeat: repeatKeyed})
}

// CreateNamespace starts the creation of a namespace. The error is CONFLICT if its name is taken, and
// STATE_CONFLICT if req names no region and the cloud has no host yet. Call WaitOperation before using the
// namespace.
func (c *Cloud) CreateNamespace(ctx context.Context, org string, req api.CreateNamespaceRequest) (api.Operation, error) {
	return send[api.Operation](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "namespaces"), body: req, repeat: repeatKeyed})
}

// Namespaces lists an organisation's namespaces.
func (c *Cloud) Namespaces(ctx context.Context, org string) ([]api.Namespace, error) {
	return all[api.Namespace](ctx, c.Client, cloudPath("orgs", org, "namespaces"), nil)
}

// Namespace returns a namespace, by id or by its name in the token's organisation.
func (c *Cloud) Namespace(ctx context.Context, ns string) (api.Namespace, error) {
	return get[api.Namespace](ctx, c.Client, cloudPath("namespaces", ns))
}

// Endpoint returns the base URL of the data plane of a namespace.
func (c *Cloud) Endpoint(ctx context.Context, ns string) (api.Endpoint, error) {
	return get[api.Endpoint](ctx, c.Client, cloudPath("namespaces", ns, "endpoint"))
}

// UpdateNamespace changes a namespace. The error is STATE_CONFLICT while the namespace is being deleted. If
// version is not 0 and the present version differs, the error is PRECONDITION_FAILED.
func (c *Cloud) UpdateNamespace(ctx context.Context, ns string, req api.UpdateNamespaceRequest, version int64) (api.Namespace, error) {
	return send[api.Namespace](ctx, c.Client, call{method: http.MethodPatch, path: cloudPath("namespaces", ns), body: req, ifMatch: version, repeat: repeatKeyed})
}

// DeleteNamespace starts the deletion of a namespace with all its data. WaitOperation waits for the end of
// the deletion. The error is STATE_CONFLICT while the namespace has deletion protection. If version is not 0
// and the present version differs, the error is PRECONDITION_FAILED.
func (c *Cloud) DeleteNamespace(ctx context.Context, ns string, version int64) (api.Operation, error) {
	return send[api.Operation](ctx, c.Client, call{method: http.MethodDelete, path: cloudPath("namespaces", ns), ifMatch: version, repeat: repeatDeletion(version)})
}

// CreateNamespaceKey creates an API key of a namespace. Give req an ID and a Hash of your own. Without them a
// lost response loses the secret, because the repeat gets only CONFLICT and the id of the key to revoke. The
// error is CONFLICT if another key has or had the ID, and STATE_CONFLICT while the namespace is being
// deleted.
func (c *Cloud) CreateNamespaceKey(ctx context.Context, ns string, req api.CreateCloudKeyRequest) (api.CloudKey, error) {
	return send[api.CloudKey](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("namespaces", ns, "keys"), body: req, repeat: repeatKeyed})
}

// NamespaceKeys lists a namespace's API keys.
func (c *Cloud) NamespaceKeys(ctx context.Context, ns string) ([]api.Key, error) {
	return all[api.Key](ctx, c.Client, cloudPath("namespaces", ns, "keys"), nil)
}

// NamespaceKey returns one API key of a namespace.
func (c *Cloud) NamespaceKey(ctx context.Context, ns, id string) (api.Key, error) {
	return c.keyOf(ctx, call{method: http.MethodGet, path: cloudPath("namespaces", ns, "keys", id), repeat: repeatAlways})
}

// RotateNamespaceKey replaces an API key by a new one. The old one stays valid for req.Overlap. Without an ID
// and a Hash in req, a lost response loses the secret, as with CreateNamespaceKey. The other errors are those
// of CreateNamespaceKey, and STATE_CONFLICT if the old key is disabled.
func (c *Cloud) RotateNamespaceKey(ctx context.Context, ns, id string, req api.RotateKeyRequest) (api.CloudKey, error) {
	return send[api.CloudKey](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("namespaces", ns, "keys", id, "rotate"), body: req, repeat: repeatKeyed})
}

// keyOf sends a call whose response is a key, and stores its version.
func (c *Cloud) keyOf(ctx context.Context, k call) (out api.Key, err error) {
	k.out, k.version = &out, &out.Version
	_, err = c.do(ctx, k)
	return out, err
}

func (c *Cloud) setKey(ctx context.Context, path string, req api.SetKeyRequest, version int64) (api.Key, error) {
	return c.keyOf(ctx, call{method: http.MethodPut, path: path, body: req, ifMatch: version, repeat: repeatKeyed})
}

// SetNamespaceKey replaces the settings of an API key; its id and secret stay. req.Roles is required. If
// version is not 0 and the present version differs, the error is PRECONDITION_FAILED.
func (c *Cloud) SetNamespaceKey(ctx context.Context, ns, id string, req api.SetKeyRequest, version int64) (api.Key, error) {
	return c.setKey(ctx, cloudPath("namespaces", ns, "keys", id), req, version)
}

// SetToken replaces the settings of a cloud token; its id and secret stay. req.Roles is required. The error
// is CONFLICT if no token could then administer the organisation. If version is not 0 and the present version
// differs, the error is PRECONDITION_FAILED.
func (c *Cloud) SetToken(ctx context.Context, org, id string, req api.SetKeyRequest, version int64) (api.Key, error) {
	return c.setKey(ctx, cloudPath("orgs", org, "keys", id), req, version)
}

// RevokeNamespaceKey deletes an API key. If version is not 0 and the present version differs, the error is
// PRECONDITION_FAILED.
func (c *Cloud) RevokeNamespaceKey(ctx context.Context, ns, id string, version int64) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cloudPath("namespaces", ns, "keys", id), ifMatch: version, repeat: repeatDeletion(version)})
	return err
}

// repeatDeletion returns when a deletion may be sent again. The repeat of a conditional deletion needs an
// idempotency key, because a precondition that held at the first try may fail at the second.
func repeatDeletion(version int64) repeat {
	if version == 0 {
		return repeatAlways
	}
	return repeatKeyed
}

// CreateToken creates a cloud token of an organisation. Without an ID and a Hash in req, a lost response
// loses the secret, as with CreateNamespaceKey. The error is CONFLICT if another key or token has or had the
// ID.
func (c *Cloud) CreateToken(ctx context.Context, org string, req api.CreateCloudKeyRequest) (api.CloudKey, error) {
	return send[api.CloudKey](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "keys"), body: req, repeat: repeatKeyed})
}

// Tokens lists an organisation's cloud tokens.
func (c *Cloud) Tokens(ctx context.Context, org string) ([]api.Key, error) {
	return all[api.Key](ctx, c.Client, cloudPath("orgs", org, "keys"), nil)
}

// Token returns one cloud token of an organisation.
func (c *Cloud) Token(ctx context.Context, org, id string) (api.Key, error) {
	return c.keyOf(ctx, call{method: http.MethodGet, path: cloudPath("orgs", org, "keys", id), repeat: repeatAlways})
}

// RotateToken replaces a cloud token by a new one. The old one stays valid for req.Overlap. Without an ID and
// a Hash in req, a lost response loses the secret, as with CreateNamespaceKey. The error is CONFLICT if
// another key or token has or had the ID, and STATE_CONFLICT if the old token is disabled.
func (c *Cloud) RotateToken(ctx context.Context, org, id string, req api.RotateKeyRequest) (api.CloudKey, error) {
	return send[api.CloudKey](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "keys", id, "rotate"), body: req, repeat: repeatKeyed})
}

// RevokeToken deletes a cloud token. The error is CONFLICT if no other token could administer the
// organisation. If version is not 0 and the present version differs, the error is PRECONDITION_FAILED.
func (c *Cloud) RevokeToken(ctx context.Context, org, id string, version int64) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cloudPath("orgs", org, "keys", id), ifMatch: version, repeat: repeatDeletion(version)})
	return err
}

// UsageQuery selects usage. From is inclusive, To exclusive. A zero To means the end of the present hour, and
// a zero From means 30 days before To. The control plane truncates both to the hour.
type UsageQuery struct {
	From, To time.Time
	GroupBy  string // "", namespace, queue, model, provider or day
}

func (q UsageQuery) encode() string {
	v := url.Values{}
	if !q.From.IsZero() {
		v.Set("from", string(api.TimeOf(q.From)))
	}
	if !q.To.IsZero() {
		v.Set("to", string(api.TimeOf(q.To)))
	}
	if q.GroupBy != "" {
		v.Set("group_by", q.GroupBy)
	}
	if len(v) == 0 {
		return ""
	}
	return "?" + v.Encode()
}

// Usage returns the usage of an organisation.
func (c *Cloud) Usage(ctx context.Context, org string, q UsageQuery) (api.UsageReport, error) {
	return get[api.UsageReport](ctx, c.Client, cloudPath("orgs", org, "usage")+q.encode())
}

// Plan returns the plan of an organisation.
func (c *Cloud) Plan(ctx context.Context, org string) (api.PlanHistory, error) {
	return get[api.PlanHistory](ctx, c.Client, cloudPath("orgs", org, "plan"))
}

// SetPlan changes the plan of an organisation. The error is FORBIDDEN if only an operator may make the change.
func (c *Cloud) SetPlan(ctx context.Context, org string, req api.SetPlanRequest) (api.PlanHistory, error) {
	return send[api.PlanHistory](ctx, c.Client, call{method: http.MethodPut, path: cloudPath("orgs", org, "plan"), body: req, repeat: repeatKeyed})
}

// PlatformPrices returns the plans and their prices.
func (c *Cloud) PlatformPrices(ctx context.Context) (api.PlatformPrices, error) {
	return get[api.PlatformPrices](ctx, c.Client, cloudPath("prices"))
}

// NamespaceUsage returns the usage of a namespace.
func (c *Cloud) NamespaceUsage(ctx context.Context, ns string, q UsageQuery) (api.UsageReport, error) {
	return get[api.UsageReport](ctx, c.Client, cloudPath("namespaces", ns, "usage")+q.encode())
}

// AsideUsage lists usage that was refused and set aside, the oldest first and without the frames. It
// needs an operator's key.
func (c *Cloud) AsideUsage(ctx context.Context) ([]api.AsideUsage, error) {
	return all[api.AsideUsage](ctx, c.Client, cloudPath("usage", "aside"), nil)
}

// AsideUsageFrame returns usage that was set aside, with its frame. It needs an operator's key.
func (c *Cloud) AsideUsageFrame(ctx context.Context, seq int64) (api.AsideUsage, error) {
	return get[api.AsideUsage](ctx, c.Client, cloudPath("usage", "aside", strconv.FormatInt(seq, 10)))
}

// RemoveAsideUsage permanently deletes usage that was set aside. It needs an operator's key.
func (c *Cloud) RemoveAsideUsage(ctx context.Context, seq int64) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cloudPath("usage", "aside", strconv.FormatInt(seq, 10)), repeat: repeatDeletion(0)})
	return err
}

// NoOrg makes OperatorAudit list the rows that belong to no organisation.
const NoOrg = "-"

// OperatorAudit lists the rows of the audit log, the oldest first: with an organisation its rows, with NoOrg
// the rows that belong to none, and with "" all rows. It needs an operator's key.
func (c *Cloud) OperatorAudit(ctx context.Context, org string) ([]api.AuditRow, error) {
	v := url.Values{}
	if org != "" {
		v.Set("org", org)
	}
	return all[api.AuditRow](ctx, c.Client, cloudPath("audit"), v)
}

// Audit lists an organisation's changes and refused requests, the oldest first.
func (c *Cloud) Audit(ctx context.Context, org string) ([]api.AuditRow, error) {
	return all[api.AuditRow](ctx, c.Client, cloudPath("orgs", org, "audit"), nil)
}

// maxAuditCheck is the number of rows of the audit log that the control plane checks in one request.
const maxAuditCheck = "1000"

// VerifyAudit makes the control plane verify its whole audit log and returns the end of the log. An error
// names the first invalid row. It needs an operator's key.
func (c *Cloud) VerifyAudit(ctx context.Context) (api.AuditCheck, error) {
	v := url.Values{"limit": {maxAuditCheck}}
	for {
		check, err := get[api.AuditCheck](ctx, c.Client, cloudPath("audit", "verify")+"?"+v.Encode())
		switch {
		case err != nil:
			return check, err
		case check.Broken != nil:
			return check, errors.New(check.Broken.Error)
		case check.Cursor == "":
			return check, nil
		}
		v.Set("cursor", check.Cursor)
	}
}

// CreateHost registers a host or gateway. The error is CONFLICT if its name is taken. If the response is
// lost, the credential is lost too: the repeat gets CONFLICT, and the operator must register another host. It
// needs an operator's key.
func (c *Cloud) CreateHost(ctx context.Context, req api.CreateHostRequest) (api.CreatedHost, error) {
	return send[api.CreatedHost](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("hosts"), body: req, repeat: repeatKeyed})
}

// Host returns a host or gateway, by id or name. It needs an operator's key.
func (c *Cloud) Host(ctx context.Context, host string) (api.Host, error) {
	return get[api.Host](ctx, c.Client, cloudPath("hosts", host))
}

// RemoveHost removes a host or gateway for ever, by id or name. The error is STATE_CONFLICT while namespaces
// are placed on the host or it still deletes their data. If version is not 0 and the present version differs,
// the error is PRECONDITION_FAILED. It needs an operator's key.
func (c *Cloud) RemoveHost(ctx context.Context, host string, version int64) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cloudPath("hosts", host), ifMatch: version, repeat: repeatDeletion(version)})
	return err
}

// DrainHost empties a host, by id or name: it gets no namespaces, and those that are there move to other hosts. The
// status is api.HostDrained once none is left, and api.HostDraining before. The error is STATE_CONFLICT for a gateway.
// It needs an operator's key.
func (c *Cloud) DrainHost(ctx context.Context, host string) (status string, err error) {
	a, err := send[api.Status](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("hosts", host, "drain"), repeat: repeatAlways})
	return a.Status, err
}

// UndrainHost ends the drain of a host, by id or name. It needs an operator's key.
func (c *Cloud) UndrainHost(ctx context.Context, host string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: cloudPath("hosts", host, "undrain"), repeat: repeatAlways})
	return err
}

// Hosts lists hosts and gateways. It needs an operator's key.
func (c *Cloud) Hosts(ctx context.Context) ([]api.Host, error) {
	return all[api.Host](ctx, c.Client, cloudPath("hosts"), nil)
}

// Processes lists the processes of the control plane. It needs an operator's key.
func (c *Cloud) Processes(ctx context.Context) ([]api.Process, error) {
	return all[api.Process](ctx, c.Client, cloudPath("processes"), nil)
}

// RemoveProcess removes a process of the control plane for ever. The error is STATE_CONFLICT if the process
// answers the request itself, or if the voters that remain alive would be no majority. It needs an operator's
// key.
func (c *Cloud) RemoveProcess(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cloudPath("processes", id), repeat: repeatDeletion(0)})
	return err
}

// FleetRoots lists the roots of the fleet's certificates. It needs an operator's key.
func (c *Cloud) FleetRoots(ctx context.Context) ([]api.FleetRoot, error) {
	return all[api.FleetRoot](ctx, c.Client, cloudPath("fleet-roots"), nil)
}

// RotateFleetRoot starts the rotation of the fleet's root and returns the new root. If a rotation has started and the new
// root does not sign yet, it returns that root. It needs an operator's key.
func (c *Cloud) RotateFleetRoot(ctx context.Context, req api.RotateFleetRootRequest) (api.FleetRoot, error) {
	return send[api.FleetRoot](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("fleet-roots"), body: req, repeat: repeatAlways})
}

// SwitchFleetRoot lets an announced root sign now, although the hosts and gateways without, by id or name, may not trust
// it. It needs an operator's key.
func (c *Cloud) SwitchFleetRoot(ctx context.Context, fingerprint string, without ...string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: cloudPath("fleet-roots", fingerprint, "switch"), body: api.SwitchFleetRootRequest{Without: without}, repeat: repeatAlways})
	return err
}

// RetireFleetRoot retires a root. The error is STATE_CONFLICT if its certificates are in use. It needs an operator's key.
func (c *Cloud) RetireFleetRoot(ctx context.Context, fingerprint string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cloudPath("fleet-roots", fingerprint)})
	return err
}

// Clusters lists the data-plane clusters of all namespaces. It needs an operator's key.
func (c *Cloud) Clusters(ctx context.Context) ([]api.CloudCluster, error) {
	return all[api.CloudCluster](ctx, c.Client, cloudPath("clusters"), nil)
}

// Cluster returns the data-plane cluster of a namespace, by the namespace's id. It needs an operator's key.
func (c *Cloud) Cluster(ctx context.Context, id string) (api.CloudCluster, error) {
	return get[api.CloudCluster](ctx, c.Client, cloudPath("clusters", id))
}

// PauseReconcile pauses the reconciliation of a namespace, by the namespace's id, until ResumeReconcile. It needs an
// operator's key.
func (c *Cloud) PauseReconcile(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: cloudPath("clusters", id, "pause-reconcile"), repeat: repeatAlways})
	return err
}

// MoveCluster moves the member of a namespace, by the namespace's id, from one host to another, each by id or name. The
// status is api.ClusterMoved once the move has ended, and api.ClusterMoving before. The error is STATE_CONFLICT if the
// member cannot move there now. It needs an operator's key.
func (c *Cloud) MoveCluster(ctx context.Context, id, from, to string) (status string, err error) {
	body := api.MoveClusterRequest{From: from, To: to}
	a, err := send[api.Status](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("clusters", id, "move"), body: body, repeat: repeatAlways})
	return a.Status, err
}

// RecoverCluster refounds the groups of a namespace, by the namespace's id, that have lost their quorum, from the copy on
// one host. Acknowledged writes that the copy lacks are lost. It needs an operator's key.
func (c *Cloud) RecoverCluster(ctx context.Context, id string, r api.RecoverClusterRequest) (api.RecoverCluster, error) {
	return send[api.RecoverCluster](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("clusters", id, "recover"), body: r, repeat: repeatAlways})
}

// ResumeReconcile ends a pause. It needs an operator's key.
func (c *Cloud) ResumeReconcile(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: cloudPath("clusters", id, "resume-reconcile"), repeat: repeatAlways})
	return err
}

func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// versionOf returns the version in a tag made by etag, and 0 for any other tag, such as a proxy's weak tag. A
// write that sent a weak tag back in If-Match would always be refused.
func versionOf(tag string) int64 {
	text, err := strconv.Unquote(tag)
	if err != nil {
		return 0
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
