package fleet

import (
	"errors"
	"fmt"
	"sync"

	"github.com/corvo/corvo/api"
)

// SupersededError reports that the control plane refuses this process for good: a newer process of the same
// host has joined, or the store belongs to another host. The cause may be a copy of a data directory that
// runs beside its original.
type SupersededError struct {
	Store   string // of the newer process, or the store that belongs to another host
	Address string // of that process or host, for gateways; "" = the host was removed or has not joined
	Err     error  // the control plane's refusal
}

func (e *SupersededError) Error() string { return e.Err.Error() }

func (e *SupersededError) Unwrap() error { return e.Err }

// Superseded returns the STATE_CONFLICT that makes a member stop. The details store and address distinguish
// it from other conflicts.
func Superseded(message, store, address string) *api.Error {
	e := api.Errorf(api.StateConflict, "%s", message)
	e.Details = map[string]any{"store": store, "address": address}
	return e
}

// fence remembers that the control plane has refused this process for good. It is safe for concurrent use.
type fence struct {
	once sync.Once
	down chan struct{} // closed once err is set
	err  *SupersededError
}

// check closes the fence if err is a refusal that Superseded made.
func (f *fence) check(err error) {
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.StateConflict {
		return
	}
	store, ok := e.Details["store"].(string)
	if !ok {
		return
	}
	f.once.Do(func() {
		f.err = &SupersededError{Store: store, Address: fmt.Sprint(e.Details["address"]), Err: e}
		close(f.down)
	})
}

// refusal returns the error of a closed fence, or nil.
func (f *fence) refusal() error {
	select {
	case <-f.down:
		return f.err
	default:
		return nil
	}
}
