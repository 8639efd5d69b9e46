package about

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// start serves a site in front of a server that has only its documents.
func start(t *testing.T) *httptest.Server {
	t.Helper()
	s := Site{Name: "Test <server>", Text: "It is a test.", Documents: []Document{APIDocument, CloudDocument}, Start: StartAtAPI}
	server := httptest.NewServer(Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/openapi.json") {
			w.WriteHeader(http.StatusTeapot)
		}
	}), s))
	t.Cleanup(server.Close)
	return server
}

func get(t *testing.T, method, url, accept string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// / is JSON for programs and a page for browsers.
func TestTheRootSaysWhatTheServerIs(t *testing.T) {
	t.Parallel()
	server := start(t)
	resp, body := get(t, "GET", server.URL+"/", "*/*")
	var told struct {
		Name, About, Docs string
		OpenAPI           []struct{ URL string }
	}
	if err := json.Unmarshal([]byte(body), &told); err != nil {
		t.Fatalf("%s: %s, %v", resp.Header.Get("Content-Type"), body, err)
	}
	if told.Name != "Test <server>" || told.Docs != "/docs" || len(told.OpenAPI) != 2 {
		t.Errorf("the page for programs is %s", body)
	}
	resp, body = get(t, "GET", server.URL+"/", "text/html,application/xhtml+xml,*/*;q=0.8")
	if !strings.Contains(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(body, "Test &lt;server&gt;") {
		t.Errorf("a browser gets %s: %s", resp.Header.Get("Content-Type"), body)
	}
	if _, body := get(t, "HEAD", server.URL+"/", ""); body != "" {
		t.Errorf("HEAD has a body: %s", body)
	}
}

// Every link of the pages works and stays on the same origin. The policy lets a browser load nothing
// else: no page has an inline script or style.
func TestThePagesLoadOnlyFromTheServer(t *testing.T) {
	t.Parallel()
	server := start(t)
	links := regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	for _, path := range []string{"/", "/docs"} {
		resp, body := get(t, "GET", server.URL+path, "text/html")
		policy := resp.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		if regexp.MustCompile(`<script>|<style|style=|\son\w+=|https?://`).MatchString(body) {
			t.Errorf("%s has what the policy forbids:\n%s", path, body)
		}
		found := links.FindAllStringSubmatch(body, -1)
		if len(found) < 4 {
			t.Errorf("%s has %d links", path, len(found))
		}
		for _, link := range found {
			resp, body := get(t, "GET", server.URL+"/"+link[1], "")
			if (resp.StatusCode != http.StatusOK || body == "") && !strings.HasSuffix(link[1], "z") && !strings.HasSuffix(link[1], ".json") {
				t.Errorf("%s links to %s: %s", path, link[1], resp.Status)
			}
		}
	}
	if _, style := get(t, "GET", server.URL+"/docs/page.css", ""); !strings.Contains(style, ".topbar .link { visibility: hidden; }") {
		t.Errorf("the logo, whose own style the policy blocks, is shown: %s", style)
	}
	_, script := get(t, "GET", server.URL+"/docs/init.js", "")
	for _, d := range []string{`"url":"openapi.json"`, `"url":"cloud/v1/openapi.json"`} {
		if !strings.Contains(script, d) {
			t.Errorf("the viewer does not open %s: %s", d, script)
		}
	}
}

// A client gets the same files of the viewer with and without gzip.
func TestTheViewerIsServedCompressedAndPlain(t *testing.T) {
	t.Parallel()
	server := start(t)
	for path, a := range assets {
		_, unpacked := get(t, "GET", server.URL+path, "") // Go's client asks for gzip by itself
		plain := httptest.NewRecorder()
		a.serve(plain, httptest.NewRequest("GET", path, nil))
		if plain.Header().Get("Content-Encoding") != "" || plain.Body.String() != unpacked || len(unpacked) < 100 {
			t.Errorf("%s: %d bytes plain, %d unpacked", path, plain.Body.Len(), len(unpacked))
		}
	}
}

// All other requests reach the server.
func TestOtherRequestsPass(t *testing.T) {
	t.Parallel()
	server := start(t)
	for _, c := range [][2]string{{"POST", "/"}, {"DELETE", "/docs"}, {"GET", "/docs/"}, {"GET", "/docs/../x"}, {"GET", "/docs/swagger-ui.js"}, {"GET", "/api/v1/queues"}} {
		if resp, _ := get(t, c[0], server.URL+c[1], ""); resp.StatusCode != http.StatusTeapot {
			t.Errorf("%s %s: %s", c[0], c[1], resp.Status)
		}
	}
}
