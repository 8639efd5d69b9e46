// Package about serves the pages at a server's address for people: / names the server and links to its
// other pages, /docs shows its OpenAPI documents. The pages need no credential and are the same in every
// installation.
package about

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

// Site describes a server.
type Site struct {
	Name      string     `json:"name"`
	Text      string     `json:"about"`
	Documents []Document `json:"openapi"`
	Start     string     `json:"start"` // the first request to send
}

// Document is an OpenAPI document of the server.
type Document struct {
	Name string `json:"name"`
	Path string `json:"url"`
}

// APIDocument is the document of the tenants' routes, on every server that has them.
var APIDocument = Document{Name: "Corvo", Path: "/openapi.json"}

// CloudDocument is the document of the cloud API.
var CloudDocument = Document{Name: "Corvo cloud", Path: "/cloud/v1/openapi.json"}

// StartAtAPI is the first request to send to a server with the tenants' routes.
const StartAtAPI = "POST /api/v1/enqueue with Authorization: Bearer KEY"

// pagePolicy lets the pages load only files of the server itself. The viewer's icons are data: URLs in
// its style sheet.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is a fixed response.
type file struct {
	kind string // content type
	body []byte
}

// site is the handler that Wrap returns.
type site struct {
	next     http.Handler
	files    map[string]file
	asJSON   file // / for programs
	asPage   file // / for browsers
	viewable map[string]asset
}

// Wrap serves GET and HEAD of /, /docs and the files of the viewer below /docs/, and passes all other
// requests to next. It panics if the site cannot be rendered, because that is a bug of the program.
func Wrap(next http.Handler, s Site) http.Handler {
	type rootJSON struct {
		Site
		Docs   string `json:"docs"`
		Health string `json:"health"`
		Ready  string `json:"ready"`
	}
	text, err := json.MarshalIndent(rootJSON{Site: s, Docs: "/docs", Health: "/healthz", Ready: "/readyz"}, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("about %s: %v", s.Name, err))
	}
	return &site{
		next:   next,
		asJSON: file{"application/json", append(text, '\n')},
		asPage: page(rootPage, s),
		files: map[string]file{
			"/docs":          page(docsPage, s),
			"/docs/init.js":  {"text/javascript; charset=utf-8", initScript(s)},
			"/docs/page.css": {"text/css; charset=utf-8", []byte(pageStyle)},
		},
		viewable: assets,
	}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.next.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/" {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			s.asPage.write(w)
			return
		}
		s.asJSON.write(w)
		return
	}
	if f, ok := s.files[r.URL.Path]; ok {
		f.write(w)
		return
	}
	if a, ok := s.viewable[r.URL.Path]; ok {
		a.serve(w, r)
		return
	}
	s.next.ServeHTTP(w, r)
}

// write sends the file. net/http leaves out the body of a response to HEAD.
func (f file) write(w http.ResponseWriter) {
	harden(w.Header())
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(f.body) // an error means that the client is gone
}

// harden sets headers that keep a browser from loading other files and from guessing content types.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}

// page renders a page of the site.
func page(t *template.Template, s Site) file {
	var out bytes.Buffer
	if err := t.Execute(&out, s); err != nil {
		panic(fmt.Sprintf("about %s: %v", s.Name, err))
	}
	return file{"text/html; charset=utf-8", out.Bytes()}
}

// initScript returns the script that starts the viewer with the documents of the site. The documents' URLs
// are relative, so that a proxy can serve the site below a path.
func initScript(s Site) []byte {
	type shown struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	}
	var all []shown
	for _, d := range s.Documents {
		all = append(all, shown{d.Name, strings.TrimPrefix(d.Path, "/")})
	}
	list, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Sprintf("about %s: %v", s.Name, err))
	}
	return fmt.Appendf(nil, `window.ui = SwaggerUIBundle({
  urls: %s,
  dom_id: "#viewer",
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
  layout: "StandaloneLayout",
});
`, list)
}

// relative converts a path to a relative link of a page at the root.
func relative(path string) string { return strings.TrimPrefix(path, "/") }

var functions = template.FuncMap{"relative": relative}

var rootPage = template.Must(template.New("root").Funcs(functions).Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Name}}</title>
<link rel="stylesheet" href="docs/page.css">
<h1>{{.Name}}</h1>
<p>{{.Text}}</p>
<p>First request: <code>{{.Start}}</code></p>
<ul>
<li><a href="docs">Routes</a></li>
{{range .Documents}}<li><a href="{{relative .Path}}">OpenAPI document: {{.Name}}</a></li>
{{end}}<li><a href="healthz">Health</a>, <a href="readyz">readiness</a></li>
</ul>
</html>
`))

var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Name}}: routes</title>
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/page.css">
<div id="viewer"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/swagger-ui-standalone-preset.js"></script>
<script src="docs/init.js"></script>
</html>
`))

// pageStyle hides the viewer's logo, because pagePolicy blocks the logo's own style: it would be black on
// black.
const pageStyle = `body { margin: 2rem auto; max-width: 80rem; padding: 0 1rem; font-family: sans-serif; line-height: 1.5; }
.swagger-ui .topbar .link { visibility: hidden; }
`
