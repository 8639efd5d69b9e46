package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

// writeResource writes one resource with its version as the ETag.
func writeResource(w http.ResponseWriter, status int, version int64, v any) error {
	w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(version, 10)))
	return serve.WriteJSON(w, status, v)
}

// versioned lists the conditions of routes whose handlers call expected.
var versioned = []string{serve.IfMatch}

// expected returns the version that If-Match requires, or 0 for any version if the header is missing or
// contains *. If one of several tags is the present version, expected returns that one, and otherwise the
// first. It refuses with PRECONDITION_FAILED a header without any tag that can be a version. Only the op
// compares the version with the resource, when the op is applied.
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
