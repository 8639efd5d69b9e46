package chaos

import (
	"errors"
	"net"
	"net/http"
	"testing"
)

// gives answers each request with a status, or with an error if the status is 0.
type gives struct {
	status int
	err    error
}

func (g gives) RoundTrip(*http.Request) (*http.Response, error) {
	if g.status == 0 {
		return nil, g.err
	}
	return &http.Response{StatusCode: g.status, Body: http.NoBody}, nil
}

// TestChargedRequests checks the bounds on the requests in the ledger: successes count, other outcomes may count unless no
// gateway was reached, and a killed gateway may lose the successes since the ledger had all.
func TestChargedRequests(t *testing.T) {
	t.Parallel()
	var r requests
	for i := range r.by {
		r.by[i] = &gatewayRequests{}
	}
	send := func(gateway, times int, with gives) {
		r.by[gateway].next = with
		for range times {
			_, _ = r.by[gateway].RoundTrip(nil) // its outcome is counted
		}
	}
	want := func(when string, wantLeast, wantMost int64) {
		t.Helper()
		if least, most := r.bounds(); least != wantLeast || most != wantMost {
			t.Errorf("%s: %d to %d requests, want %d to %d", when, least, most, wantLeast, wantMost)
		}
	}
	send(0, 5, gives{status: http.StatusCreated})
	send(1, 7, gives{status: http.StatusNoContent})
	want("successes", 12, 12)
	send(0, 2, gives{status: http.StatusNotFound})
	send(0, 3, gives{err: errors.New("timeout")})
	send(1, 9, gives{err: &net.OpError{Op: "dial", Err: errors.New("refused")}})
	want("failures", 12, 17)

	r.settled[0] = r.by[0].answered.Load()
	send(0, 4, gives{status: http.StatusOK})
	r.by[0].sent.Add(1) // a request under way
	r.killed(0)
	want("a killed gateway", 11, 22)
	r.by[0].finished.Add(1)
	send(0, 6, gives{status: http.StatusOK})
	r.killed(0)
	want("a gateway that is killed again", 11, 28)
	send(1, 1, gives{status: http.StatusOK})
	want("a success of the other gateway", 12, 29)
}
