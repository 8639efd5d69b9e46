package gateway

import (
	"context"
	"sync"
)

// passage is one request on its way to a host.
type passage struct {
	credential, hint string
	namespace        string // it was let into
	poll             bool   // it may wait for work or events, and has done nothing while it does
	stream           bool   // it sends what is to be done until it ends
	cancel           context.CancelCauseFunc
	closeBody        func() // ends what a stream sends, as if the client had
}

// drain ends a poll, or what a stream sends.
func (p *passage) drain(why error) {
	switch {
	case p.poll:
		p.cancel(why)
	case p.stream:
		p.closeBody()
	}
}

// flight is the requests under way, by namespace, so that those whose credential
// ends can be ended too. Its zero value is ready.
type flight struct {
	mu       sync.Mutex
	passages map[string]map[*passage]struct{}
	draining error // why polls are not let in any more; nil while they are
}

// begin puts a request in; end takes it out.
func (f *flight) begin(p *passage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining != nil {
		p.drain(f.draining)
	}
	if f.passages == nil {
		f.passages = map[string]map[*passage]struct{}{}
	}
	all := f.passages[p.namespace]
	if all == nil {
		all = map[*passage]struct{}{}
		f.passages[p.namespace] = all
	}
	all[p] = struct{}{}
}

func (f *flight) end(p *passage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.passages[p.namespace]
	delete(all, p)
	if len(all) == 0 {
		delete(f.passages, p.namespace)
	}
}

// drain ends the polls there are, and those to come.
func (f *flight) drain(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draining = why
	for _, all := range f.passages {
		for p := range all {
			p.drain(why)
		}
	}
}

// check ends the requests of a namespace that shutOut has an error for.
func (f *flight) check(namespace string, shutOut func(*passage) error) {
	f.mu.Lock()
	var all []*passage
	for p := range f.passages[namespace] {
		all = append(all, p)
	}
	f.mu.Unlock()
	for _, p := range all {
		if err := shutOut(p); err != nil {
			p.cancel(err)
		}
	}
}

func (f *flight) checkAll(shutOut func(*passage) error) {
	f.mu.Lock()
	var namespaces []string
	for n := range f.passages {
		namespaces = append(namespaces, n)
	}
	f.mu.Unlock()
	for _, n := range namespaces {
		f.check(n, shutOut)
	}
}
