package about

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/swaggest/swgui/v5/static"
)

// asset is a file of the viewer in the binary, compressed if that makes it smaller.
type asset struct {
	name       string // in the viewer's file system
	kind       string // content type
	compressed bool
}

// assets maps paths to the viewer's files in the binary.
var assets = map[string]asset{
	"/docs/swagger-ui.css":                  {"swagger-ui.css.gz", "text/css; charset=utf-8", true},
	"/docs/swagger-ui-bundle.js":            {"swagger-ui-bundle.js.gz", "text/javascript; charset=utf-8", true},
	"/docs/swagger-ui-standalone-preset.js": {"swagger-ui-standalone-preset.js.gz", "text/javascript; charset=utf-8", true},
	"/docs/favicon-32x32.png":               {"favicon-32x32.png", "image/png", false},
}

// serve sends the file, unpacked if Accept-Encoding does not name gzip.
func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	body, err := static.FS.ReadFile(a.name)
	if err == nil && a.compressed {
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
		} else {
			body, err = unpack(body)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("the viewer's %s is damaged: %v", path.Base(a.name), err)) // the binary is damaged
	}
	harden(w.Header())
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "max-age=3600")
	_, _ = w.Write(body) // an error means that the client is gone
}

func unpack(body []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
