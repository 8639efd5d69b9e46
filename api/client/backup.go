package client

import (
	"context"
	"io"
	"net/http"
)

// Backup passes a backup of the node's namespace to read. It contains all state, with payloads and the
// hashes of keys. The bytes are a file for `corvo admin restore`, which detects a truncated file. With
// anyNode the node sends its present state without asking its leader, because it may be all that is left
// of a cluster. Only ctx limits the time, and the call is not retried.
func (c *Client) Backup(ctx context.Context, anyNode bool, read func(io.Reader) error) error {
	path := "/api/v1/admin/backup"
	if anyNode {
		path += "?consistency=eventual"
	}
	return c.stream(ctx, http.MethodPost, path, read)
}
