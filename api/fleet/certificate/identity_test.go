package certificate_test

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
)

func TestIdentitiesHaveOneSpelling(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", certificate.MaxName)
	for uri, want := range map[string]certificate.Identity{
		"corvo://fleet/control-plane/control-1":         plane,
		"corvo://fleet/gateway/gw_1":                    gateway,
		"corvo://fleet/host/host_1/store_1":             host,
		"corvo://fleet/gateway/" + longest:              {Kind: certificate.Gateway, ID: longest},
		"corvo://fleet/host/" + longest + "/" + longest: {Kind: certificate.Host, ID: longest, Store: longest},
	} {
		got, err := certificate.ParseIdentity(uri)
		if err != nil || got != want || got.String() != uri {
			t.Errorf("%s is %+v, %v, want %+v", uri, got, err, want)
		}
	}
	for _, uri := range []string{
		"", "corvo://fleet/", "corvo://fleet/host", "corvo://fleet/host/", "corvo://fleet/gateway/gw_1/", "corvo://fleet/gateway//",
		"corvo://fleet/host/host_1", "corvo://fleet/host/host_1/", "corvo://fleet/host/host_1/store_1/", "corvo://fleet/host//store_1",
		"corvo://fleet/gateway/gw_1/store_1", "corvo://fleet/control-plane/control-1/store_1", "corvo://fleet/root/x",
		"corvo://fleet/Host/host_1/store_1", "CORVO://fleet/gateway/gw_1", "https://fleet/gateway/gw_1", "corvo://other/gateway/gw_1",
		"corvo://fleet/gateway/gw%5f1", "corvo://fleet/gateway/gw_1?x", "corvo://fleet/gateway/gw_1#x", "corvo://fleet/gateway/gw 1", "corvo://fleet/gateway/ü",
		"corvo://fleet/gateway/" + longest + "x", "corvo://fleet/host/host_1/" + longest + "x",
	} {
		_, err := certificate.ParseIdentity(uri)
		if api.CodeOf(err) != api.ValidationError {
			t.Errorf("%s is accepted, or refused with %v", uri, err)
		}
	}
}
