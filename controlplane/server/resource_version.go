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

// expected returns the version that If-Match requires; 0 = any, without the header or with *. The op itself
// checks the version when it is applied. expected refuses with PRECONDITION_FAILED a header in which no tag
// can be a version. If the header has several tags, expected returns the present version if it is one of
// them, and otherwise the first.
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
