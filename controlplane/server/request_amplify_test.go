package server

import (
	"testing"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/serve/servetest"
	"github.com/corvo/corvo/billing"

	wire "github.com/corvo/corvo/api/fleet"
)

// No request, of a client or of a member, decodes to much more memory than it has bytes.
func TestRequestsDoNotAmplify(t *testing.T) {
	servetest.Amplify(t, append((&Server{}).routes(), serve.Route{Request: wire.Report{}}, serve.Route{Request: billing.Frame{}}))
}
