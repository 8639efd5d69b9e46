package client

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
)

// Operators lists the keys of the cloud's operators. It needs an operator's key.
func (c *Cloud) Operators(ctx context.Context) ([]api.Key, error) {
	return all[api.Key](ctx, c.Client, cloudPath("operators"), nil)
}

// CreateOperator creates a key for another operator. If the response is lost, the key is lost too: the repeat gets
// CONFLICT and the id of the key to revoke. It needs an operator's key.
func (c *Cloud) CreateOperator(ctx context.Context, req api.CreateOperatorRequest) (api.CloudKey, error) {
	return send[api.CloudKey](ctx, c.Client, call{method: http.MethodPost, path: cloudPath("operators"), body: req, repeat: repeatKeyed})
}

// RevokeOperator revokes the key of another operator. The error is STATE_CONFLICT for the client's own key. It needs an
// operator's key.
func (c *Cloud) RevokeOperator(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cloudPath("operators", id), repeat: repeatDeletion(0)})
	return err
}
