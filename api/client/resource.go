package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// resource describes one kind of declared resource. Its methods are the calls that all kinds have. Req is the
// type of requests, Resp of responses.
type resource[Req, Resp any] struct {
	path    string // of the list, below /api/v1
	version func(*Resp) *int64
}

// at returns the path of one resource, whose id may have several parts.
func (n resource[Req, Resp]) at(id []string) string {
	var path strings.Builder
	path.WriteString("/api/v1" + n.path)
	for _, part := range id {
		path.WriteString("/" + url.PathEscape(part))
	}
	return path.String()
}

func (n resource[Req, Resp]) list(ctx context.Context, c *Client, r Read) ([]Resp, error) {
	var out []Resp
	_, err := c.do(ctx, call{method: http.MethodGet, path: n.at(nil) + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// one sends a call whose response is one resource, and stores its version.
func (n resource[Req, Resp]) one(ctx context.Context, c *Client, k call) (Resp, error) {
	var out Resp
	k.out, k.version = &out, n.version(&out)
	_, err := c.do(ctx, k)
	return out, err
}

func (n resource[Req, Resp]) get(ctx context.Context, c *Client, r Read, id ...string) (Resp, error) {
	return n.one(ctx, c, call{method: http.MethodGet, path: n.at(id) + r.query(), repeat: repeatAlways})
}

func (n resource[Req, Resp]) create(ctx context.Context, c *Client, req Req) (Resp, error) {
	return n.one(ctx, c, call{method: http.MethodPost, path: n.at(nil), body: req, repeat: repeatKeyed})
}

// put replaces a resource. If version is not 0, the resource must have that version. If version is 0 and the
// client chooses the ids of this kind, put creates a missing resource.
func (n resource[Req, Resp]) put(ctx context.Context, c *Client, req Req, version int64, id ...string) (Resp, error) {
	return n.one(ctx, c, call{method: http.MethodPut, path: n.at(id), body: req, ifMatch: version, repeat: repeatKeyed})
}

func (n resource[Req, Resp]) delete(ctx context.Context, c *Client, version int64, id ...string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: n.at(id), ifMatch: version, repeat: repeatKeyed})
	return err
}
