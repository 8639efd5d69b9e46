package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Corrections lists the corrections of an organisation's usage, the oldest first.
func (c *Cloud) Corrections(ctx context.Context, org string) ([]api.Correction, error) {
	return all[api.Correction](ctx, c.Client, cloudPath("orgs", org, "usage", "corrections"), nil)
}

// Correction returns a correction of an organisation's usage.
func (c *Cloud) Correction(ctx context.Context, org, id string) (api.Correction, error) {
	return get[api.Correction](ctx, c.Client, cloudPath("orgs", org, "usage", "corrections", id))
}

// ProposeCorrection proposes a correction, which changes nothing until another operator approves it. The error is
// STATE_CONFLICT if usage would fall below zero or the month is closed. It needs an operator's key.
func (c *Cloud) ProposeCorrection(ctx context.Context, org string, req api.ProposeCorrectionRequest) (api.Correction, error) {
	return send[api.Correction](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "usage", "corrections"), body: req, repeat: repeatKeyed})
}

// ApproveCorrection applies a correction to the usage. The error is FORBIDDEN for the operator who proposed it, and for a
// key that is not older than the correction. It needs an operator's key.
func (c *Cloud) ApproveCorrection(ctx context.Context, org, id string) (api.Correction, error) {
	return send[api.Correction](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "usage", "corrections", id, "approve"), repeat: repeatKeyed})
}

// RejectCorrection ends a correction that waits for approval. The error is STATE_CONFLICT if it does not wait. It needs an
// operator's key.
func (c *Cloud) RejectCorrection(ctx context.Context, org, id string, req api.RejectCorrectionRequest) (api.Correction, error) {
	return send[api.Correction](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("orgs", org, "usage", "corrections", id, "reject"), body: req, repeat: repeatKeyed})
}
