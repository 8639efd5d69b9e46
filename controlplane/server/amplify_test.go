package server

import (
	"testing"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/serve/servetest"
	"github.com/corvo/corvo/billing"

	wire "github.com/corvo/corvo/api/fleet"
)

// No request decodes to much more memory than it has bytes, those of members included.
func TestRequestsDoNotAmplify(t *testing.T) {
	servetest.Amplify(t, append((&Server{}).routes(), serve.Route{Request: wire.Report{}}, serve.Route{Request: billing.Frame{}}))
}
