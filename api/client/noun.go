package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// noun is a kind of thing that is declared: the same calls list, make, read, replace
// and delete each. Req is what is sent, Resp what comes back.
type noun[Req, Resp any] struct {
	path    string // of all, below /api/v1
	version func(*Resp) *int64
}

// at is the path of one, whose id may be of several parts.
func (n noun[Req, Resp]) at(id []string) string {
	var path strings.Builder
	path.WriteString("/api/v1" + n.path)
	for _, part := range id {
		path.WriteString("/" + url.PathEscape(part))
	}
	return path.String()
}

func (n noun[Req, Resp]) list(ctx context.Context, c *Client, r Read) ([]Resp, error) {
	var out []Resp
	_, err := c.do(ctx, call{method: http.MethodGet, path: n.at(nil) + r.query(), out: &out, repeat: repeatAlways})
	return out, err
}

// one makes a call whose answer is one of them, with its version.
func (n noun[Req, Resp]) one(ctx context.Context, c *Client, k call) (Resp, error) {
	var out Resp
	k.out, k.version = &out, n.version(&out)
	_, err := c.do(ctx, k)
	return out, err
}

func (n noun[Req, Resp]) get(ctx context.Context, c *Client, r Read, id ...string) (Resp, error) {
	return n.one(ctx, c, call{method: http.MethodGet, path: n.at(id) + r.query(), repeat: repeatAlways})
}

func (n noun[Req, Resp]) create(ctx context.Context, c *Client, req Req) (Resp, error) {
	return n.one(ctx, c, call{method: http.MethodPost, path: n.at(nil), body: req, repeat: repeatKeyed})
}

// put replaces one: with a version other than 0 only if it is still at that. Those
// that clients name are made where they are not there.
func (n noun[Req, Resp]) put(ctx context.Context, c *Client, req Req, version int64, id ...string) (Resp, error) {
	return n.one(ctx, c, call{method: http.MethodPut, path: n.at(id), body: req, ifMatch: version, repeat: repeatKeyed})
}

func (n noun[Req, Resp]) delete(ctx context.Context, c *Client, version int64, id ...string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: n.at(id), ifMatch: version, repeat: repeatKeyed})
	return err
}
