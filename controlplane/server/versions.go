package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

// writeResource answers one resource with its version as ETag.
func writeResource(w http.ResponseWriter, status int, version int64, v any) error {
	w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(version, 10)))
	return serve.WriteJSON(w, status, v)
}

// versioned are the conditions of routes whose handlers ask expected.
var versioned = []string{serve.IfMatch}

// expected is the version a write insists on by If-Match; 0 = any. The check is the
// store's, in the write itself. A tag that no resource of ours ever has is refused
// here. Of several tags the present version is taken if it is among them.
func expected(r *http.Request, present int64) (int64, error) {
	values := r.Header.Values(serve.IfMatch)
	if len(values) == 0 {
		return 0, nil
	}
	var tags []int64
	for tag := range strings.SplitSeq(strings.Join(values, ","), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" {
			return 0, nil
		}
		text, err := strconv.Unquote(tag)
		if err != nil || !strings.HasPrefix(tag, `"`) {
			continue // weak ones never match a write
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
			tags = append(tags, n)
		}
	}
	for _, n := range tags {
		if n == present {
			return n, nil
		}
	}
	if len(tags) == 0 {
		return 0, api.Errorf(api.PreconditionFailed, "If-Match is not the version of this resource, which is %d: read it again", present)
	}
	return tags[0], nil
}
