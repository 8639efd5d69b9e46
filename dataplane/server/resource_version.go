package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
)

// versioned lists the conditions of routes whose handlers call ifMatch.
var versioned = []string{serve.IfMatch}

// writeVersion answers a request with one resource, and with the resource's version as ETag.
func writeVersion(w http.ResponseWriter, status int, version uint64, v any) error {
	w.Header().Set("ETag", strconv.Quote(strconv.FormatUint(version, 10)))
	return serve.WriteJSON(w, status, v)
}

// ifMatch returns the version that the If-Match of a write requires. It returns 0, which stands for any
// version, without the header and for *. present is the version that this node knows. Of several tags ifMatch
// returns present if one of them is that version. If none is, it returns the last tag that can be a version,
// and the op checks it. ifMatch refuses the write with PRECONDITION_FAILED if no tag can be a version, or if
// present is 0.
func ifMatch(r *http.Request, present uint64) (uint64, error) {
	values := r.Header.Values(serve.IfMatch)
	if len(values) == 0 {
		return 0, nil
	}
	version := uint64(0)
	for tag := range strings.SplitSeq(strings.Join(values, ","), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" {
			return 0, nil
		}
		text, opened := strings.CutPrefix(tag, `"`)
		text, closed := strings.CutSuffix(text, `"`)
		if !opened || !closed {
			continue // a weak tag never names a version
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 && version != present {
			version = n
		}
	}
	if version == 0 {
		return 0, api.Errorf(api.PreconditionFailed, "If-Match is not the version of this resource, which is %d: read it again", present)
	}
	return version, nil
}

// unversioned refuses a write whose If-Match requires a version of something without versions. The error is
// PRECONDITION_FAILED with said as its message. unversioned accepts If-Match: *, which requires no version.
func unversioned(r *http.Request, said string) error {
	if _, err := ifMatch(r, 0); err != nil {
		return api.Errorf(api.PreconditionFailed, "%s", said)
	}
	return nil
}
