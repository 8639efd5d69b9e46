package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

var prices = noun[api.PriceRequest, api.Price]{path: "/prices", version: func(x *api.Price) *int64 { return &x.Version }}

// Prices lists what models cost: the namespace's own prices, then those that came with the
// server.
func (c *Client) Prices(ctx context.Context, r Read) ([]api.Price, error) {
	return prices.list(ctx, c, r)
}

// Price is one price, with its version.
func (c *Client) Price(ctx context.Context, id string, r Read) (api.Price, error) {
	return prices.get(ctx, c, r, id)
}

// CreatePrice makes a price of the namespace's own.
func (c *Client) CreatePrice(ctx context.Context, req api.PriceRequest) (api.Price, error) {
	return prices.create(ctx, c, req)
}

// PutPrice replaces a price of the namespace's own. With a version other than 0 only if it is
// still at that.
func (c *Client) PutPrice(ctx context.Context, id string, req api.PriceRequest, version int64) (api.Price, error) {
	return prices.put(ctx, c, req, version, id)
}

// DeletePrice removes a price of the namespace's own, with a version other than 0 only if it
// is still at that. What has been charged stays.
func (c *Client) DeletePrice(ctx context.Context, id string, version int64) error {
	return prices.delete(ctx, c, version, id)
}
