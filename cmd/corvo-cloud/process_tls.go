package main

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// insecurity holds the flag of a part that speaks to the other parts.
type insecurity struct {
	Insecure bool `flag:"insecure" doc:"speak plain HTTP with the other parts, on loopback addresses only"`
}

// scheme returns the scheme of the URLs at which the parts reach each other.
func (i *insecurity) scheme() string {
	if i.Insecure {
		return "http"
	}
	return "https"
}

// checkBind refuses plain HTTP on an address that other machines reach.
func (i *insecurity) checkBind(f *misuse.Faults, address string) {
	f.Refuse(!i.Insecure || front.Loopback(address), "--insecure needs a loopback address, and --bind is %q: give one such as 127.0.0.1:8081, or leave --insecure out", address)
}

// checkURL refuses a URL that is not https. With --insecure, it refuses a URL that is not http on a loopback
// address. An invalid URL passes, because other checks refuse it.
func (i *insecurity) checkURL(f *misuse.Faults, flag, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return
	}
	if i.Insecure {
		f.Refuse(u.Scheme == "http" && front.Loopback(net.JoinHostPort(u.Hostname(), "0")),
			"--insecure needs http URLs of loopback addresses, and %s is %q: give one such as http://127.0.0.1:8081, or leave --insecure out", flag, text)
		return
	}
	f.Refuse(u.Scheme == "https", "%s is %q; it must be an https URL, because the parts speak TLS with each other; for a trial on one machine give all parts --insecure", flag, text)
}

// openCertificate opens the file with the certificate of a part in its directory. It returns nil with --insecure.
func (j *joining) openCertificate(dir string, c certificate.Config) (*certificate.Holder, error) {
	if j.Insecure {
		return nil, nil
	}
	c.Path = filepath.Join(dir, certificate.FileName)
	if j.FleetRoot != "" {
		var err error
		if c.FleetRoot, err = certificate.ParseFingerprint(j.FleetRoot); err != nil {
			return nil, err // check has refused it
		}
	}
	held, err := certificate.Open(c)
	if err == nil && held.Member() == nil && c.FleetRoot == "" {
		return nil, misuse.Errorf("--fleet-root is missing, and there is no certificate in %s yet: give the SHA-256 that `corvo-cloud server` prints, fleet_root in the answer of POST /cloud/v1/hosts", c.Path)
	}
	return held, err
}

// rootFile is the file below the data directory with the roots of the fleet, for the programs of operators.
const rootFile = "fleet-root.pem"

// names returns the names at which operators reach this process of the control plane.
func (cfg *serverConfig) names() []string {
	all := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil { // otherwise the machine is not reached by its name
		all = append(all, name)
	}
	if u, err := url.Parse(cfg.Advertise); err == nil && u.Hostname() != "" {
		all = append(all, u.Hostname())
	}
	if host, _, err := net.SplitHostPort(cfg.RaftAdvertise); err == nil {
		all = append(all, host)
	} else if cfg.RaftAdvertise != "" {
		all = append(all, cfg.RaftAdvertise)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
