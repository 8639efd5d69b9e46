package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// BenchmarkForward measures the gateway's part of a request: everything but the connections to the client and to the
// host. The namespace has one member or three.
func BenchmarkForward(b *testing.B) {
	for _, c := range []struct {
		name    string
		members int
	}{{"one member", 1}, {"three members", 3}} {
		b.Run(c.name, func(b *testing.B) {
			w := newTown(b, ok, func(c *Config) {
				c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					_, _ = io.Copy(io.Discard, r.Body)
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
				})
			})
			key := w.key(keyring.Namespace, time.Time{}, "ns_a")
			w.put("ns_a", func(d *fleet.Doc) {
				for number := 2; number <= c.members; number++ {
					d.Members = append(d.Members, memberAt(w.host.URL, number)...)
				}
			})
			w.settle()
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/api/v1/enqueue", strings.NewReader(`{"queue":"mail"}`))
				r.Header.Set("Authorization", "Bearer "+key)
				out := httptest.NewRecorder()
				if w.gateway.ServeHTTP(out, r); out.Code != 200 {
					b.Fatal(out.Code, out.Body)
				}
			}
		})
	}
}
