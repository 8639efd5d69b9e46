package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"

	"github.com/corvo/corvo/api/fleet"
)

const (
	// maxRepeatedBody is the largest body that the gateway keeps to send it to another process. The control plane
	// takes no larger body of the cloud API.
	maxRepeatedBody = 256 << 10
	// maxRefusalBytes bounds the body of a refusal that the gateway reads.
	maxRefusalBytes = 64 << 10
)

// processes sends a request to the process of the control plane that the gateway's member asks at present. If
// that process is away, starts, stops or reaches no leader, all later requests go to the next process. This
// request goes there too if nothing was sent, or if a repeat does no harm: a read, or a request with an
// Idempotency-Key.
type processes struct {
	transport http.RoundTripper
	endpoints *fleet.Endpoints
}

// RoundTrip sends the request at most as often as there are processes.
func (p processes) RoundTrip(r *http.Request) (*http.Response, error) {
	body, kept, err := p.keep(r)
	if err != nil {
		return nil, err
	}
	for asked := 1; ; asked++ {
		at, base := p.endpoints.Current()
		out := r.Clone(r.Context())
		(&httputil.ProxyRequest{In: r, Out: out}).SetURL(base)
		if body != nil {
			out.Body = io.NopCloser(bytes.NewReader(body))
		}
		answer, err := p.transport.RoundTrip(out)
		if r.Context().Err() != nil || err == nil && !refused(answer) {
			return answer, err
		}
		p.endpoints.Leave(at)
		if !kept || asked >= p.endpoints.Len() || !repeats(r, err) {
			return answer, err
		}
		if err == nil {
			answer.Body.Close()
		}
	}
}

// keep reads the body of a request that may be repeated. kept is false if the request must not be repeated,
// because there is only one process, or because its body is longer than maxRepeatedBody or of unknown length.
func (p processes) keep(r *http.Request) (body []byte, kept bool, err error) {
	switch {
	case p.endpoints.Len() == 1 || r.ContentLength < 0 || r.ContentLength > maxRepeatedBody:
		return nil, false, nil
	case r.Body == nil || r.Body == http.NoBody:
		return nil, true, nil
	}
	body, err = io.ReadAll(r.Body)
	return body, true, errors.Join(err, r.Body.Close())
}

// refused reports whether a response says that another process may serve the request. The body can still be read.
func refused(answer *http.Response) bool {
	if answer.StatusCode != http.StatusServiceUnavailable {
		return false
	}
	return fleet.Elsewhere(refusalCode(answer))
}

// peek returns the body of a refusal, or its first maxRefusalBytes. The body can still be read.
func peek(answer *http.Response) []byte {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusalBytes)) // the next reader gets the error again
	rebody(answer, io.MultiReader(bytes.NewReader(text), answer.Body))
	return text
}

// rebody replaces the bytes of a response's body.
func rebody(answer *http.Response, body io.Reader) {
	answer.Body = struct {
		io.Reader
		io.Closer
	}{body, answer.Body}
}

// hideLeader replaces the address of the control plane's leader in a refusal by the URL of the gateway, because clients
// of the gateway cannot reach the leader and need not know its address.
func hideLeader(answer *http.Response, own string) {
	var problem map[string]any
	if json.Unmarshal(peek(answer), &problem) != nil {
		return
	}
	details, _ := problem["details"].(map[string]any)
	if _, ok := details["leader_addr"]; !ok {
		return
	}
	details["leader_addr"] = own
	text, err := json.Marshal(problem)
	if err != nil {
		return // a decoded object can always be encoded
	}
	rebody(answer, bytes.NewReader(text))
	answer.ContentLength = int64(len(text))
	answer.Header.Set("Content-Length", strconv.Itoa(len(text)))
}

// ownURL returns the URL at which a client reached the gateway. A proxy that ends TLS before the gateway hides the
// client's scheme.
func ownURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// repeats reports whether a request that failed with err, or was refused if err is nil, may be sent to another
// process. A refused write may have been made, because its process may have lost the leader's answer.
func repeats(r *http.Request, err error) bool { return unconnected(err) || idempotent(r) }

// unconnected reports whether a request failed with err because no connection could be made. Such a request
// was not sent.
func unconnected(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// idempotent reports whether a repeat of a request does no harm: it is a read, or has an Idempotency-Key.
func idempotent(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Header.Get("Idempotency-Key") != ""
}
