package gateway

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestReadAfterCloseIsNotBroken checks that only a body that breaks off counts as a fault of the client. A
// transport that fails closes the body, and a goroutine of the transport may read the closed body.
func TestReadAfterCloseIsNotBroken(t *testing.T) {
	t.Parallel()
	failed := errors.New("the host has failed")
	for name, c := range map[string]struct {
		body   io.Reader
		fail   func(io.ReadCloser)
		broken bool
	}{
		"closed by the transport": {
			strings.NewReader("{}"), func(b io.ReadCloser) {
				_ = b.Close()
				if _, err := b.Read(make([]byte, 1)); err == nil || err == io.EOF {
					t.Errorf("a read after Close returns %v", err)
				}
			}, false,
		},
		"broken off by the client": {iotest.ErrReader(io.ErrUnexpectedEOF), func(b io.ReadCloser) { _, _ = io.ReadAll(b) }, true},
		"read to its end":          {strings.NewReader("{}"), func(b io.ReadCloser) { _, _ = io.ReadAll(b); _ = b.Close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := clientBody{room: new(room)}
			var got error
			proxy := &httputil.ReverseProxy{
				Rewrite: func(p *httputil.ProxyRequest) {
					body.ReadCloser = p.Out.Body
					p.Out.Body, _ = body.try()
				},
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					c.fail(r.Body)
					return nil, failed
				}),
				ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { got = err },
			}
			proxy.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://host.invalid/", c.body))
			if !errors.Is(got, failed) || body.broken.Load() != c.broken {
				t.Errorf("the client's body broken: %v, want %v (%v)", body.broken.Load(), c.broken, got)
			}
		})
	}
}
