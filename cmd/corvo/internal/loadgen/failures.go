package loadgen

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
)

// Codes of failures that no server has reported.
const (
	NetworkError = "NETWORK"  // no answer
	TimedOut     = "TIMEOUT"  // no answer in time
	NotSent      = "NOT_SENT" // a fixed rate was not reached: the operation was never begun
)

// failures are errors by their code.
type failures map[string]*ErrorCount

func (f *failures) add(err error) { f.addN(codeOf(err), 1, err.Error()) }

func (f *failures) addN(code string, n int64, example string) {
	if *f == nil {
		*f = failures{}
	}
	known := (*f)[code]
	if known == nil {
		known = &ErrorCount{Code: code, Example: example}
		(*f)[code] = known
	}
	known.Count += n
}

func (f *failures) merge(other failures) {
	for code, e := range other {
		f.addN(code, e.Count, e.Example)
	}
}

// sorted returns the errors, the most frequent first.
func (f failures) sorted() []ErrorCount {
	all := make([]ErrorCount, 0, len(f))
	for _, e := range f {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code))
	})
	return all
}

// codeOf returns the code under which an error is counted.
func codeOf(err error) string {
	var known *api.Error
	if errors.As(err, &known) {
		return string(known.Code)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return TimedOut
	}
	var network *url.Error
	if errors.As(err, &network) {
		if network.Timeout() {
			return TimedOut
		}
		return NetworkError
	}
	var rpc *connect.Error
	if errors.As(err, &rpc) {
		return strings.ToUpper(rpc.Code().String())
	}
	return NetworkError
}

// retryAfter returns how long the server asks the client to wait; 0 = it does not say.
func retryAfter(err error) time.Duration {
	var known *api.Error
	if errors.As(err, &known) {
		return known.RetryAfter
	}
	return 0
}
