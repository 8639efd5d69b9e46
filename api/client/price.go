package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var prices = resource[api.PriceRequest, api.Price]{path: "/prices", version: func(x *api.Price) *int64 { return &x.Version }}

// Prices lists the prices of models: first the namespace's prices, then the server's.
func (c *Client) Prices(ctx context.Context, r Read) ([]api.Price, error) {
	return prices.list(ctx, c, r)
}

// Price returns one price, with its version.
func (c *Client) Price(ctx context.Context, id string, r Read) (api.Price, error) {
	return prices.get(ctx, c, r, id)
}

// CreatePrice creates a price in the namespace.
func (c *Client) CreatePrice(ctx context.Context, req api.PriceRequest) (api.Price, error) {
	return prices.create(ctx, c, req)
}

// PutPrice replaces a price of the namespace. The error is NOT_FOUND if it does not exist, and STATE_CONFLICT
// for a price of the server. If version is not 0 and the present version differs, the error is
// PRECONDITION_FAILED.
func (c *Client) PutPrice(ctx context.Context, id string, req api.PriceRequest, version int64) (api.Price, error) {
	return prices.put(ctx, c, req, version, id)
}

// DeletePrice deletes a price of the namespace. Costs that were computed with it stay. The error is
// STATE_CONFLICT for a price of the server. If version is not 0 and the present version differs, the error is
// PRECONDITION_FAILED.
func (c *Client) DeletePrice(ctx context.Context, id string, version int64) error {
	return prices.delete(ctx, c, version, id)
}
