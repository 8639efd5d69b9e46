package client

import (
	"context"
	"io"
	"net/http"
)

// Backup sends all state of the node's namespace, payloads and the hashes of keys
// included, to read: what it reads is a file for `corvo admin restore` and counts only
// where it is whole, which the file itself says. With anyNode the node gives what it
// has without asking its leader: it may be all that is left of a cluster. It takes as
// long as ctx lasts, and is asked for once.
func (c *Client) Backup(ctx context.Context, anyNode bool, read func(io.Reader) error) error {
	path := "/api/v1/admin/backup"
	if anyNode {
		path += "?consistency=eventual"
	}
	return c.stream(ctx, http.MethodPost, path, read)
}
