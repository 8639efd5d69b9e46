package fleet

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/corvo/corvo/api"
)

// MaxEndpoints is the largest number of control-plane processes that a member knows. A control plane has at most
// five; the rest is room for a change of addresses.
const MaxEndpoints = 16

// Endpoints are the base URLs of a control plane's processes. All users of one Endpoints ask the same
// process. When that process is away or reaches no leader, they go on with the next one together. It is safe
// for concurrent use.
type Endpoints struct {
	all     []*url.URL
	current atomic.Int64 // index
}

// ParseEndpoints reads 1 to MaxEndpoints base URLs that are separated by commas. Each is an http or https URL
// without a query. Spaces around a URL and slashes at its end are ignored.
func ParseEndpoints(text string) (*Endpoints, error) {
	e := &Endpoints{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimRight(strings.TrimSpace(part), "/")
		u, err := url.Parse(part)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
			return nil, fmt.Errorf("control plane %q is not a URL such as https://cloud.example.com", part)
		}
		e.all = append(e.all, u)
	}
	if len(e.all) > MaxEndpoints {
		return nil, fmt.Errorf("%d URLs of the control plane: at most %d are allowed", len(e.all), MaxEndpoints)
	}
	return e, nil
}

// checkTLS refuses a URL of plain HTTP.
func (e *Endpoints) checkTLS() error {
	for _, u := range e.all {
		if u.Scheme != "https" {
			return fmt.Errorf("control plane %q is not an https URL: a member with a certificate speaks TLS only", u)
		}
	}
	return nil
}

// Len returns the number of processes.
func (e *Endpoints) Len() int { return len(e.all) }

// Current returns the URL of the process to ask, and its index for Leave. The caller must not change the URL.
func (e *Endpoints) Current() (index int, base *url.URL) {
	index = int(e.current.Load())
	return index, e.all[index]
}

// Leave goes on with the process after that of index, unless another user has gone on already.
func (e *Endpoints) Leave(index int) {
	e.current.CompareAndSwap(int64(index), int64((index+1)%len(e.all)))
}

// Elsewhere reports whether another process may serve a request that one process refused with code. It is
// true for LEADER_UNAVAILABLE, because that process reaches no leader, and for UNHEALTHY, because it is
// starting or stopping.
func Elsewhere(code api.Code) bool { return code == api.LeaderUnavailable || code == api.Unhealthy }
