package gateway

import (
	"context"
	"sync"
)

// passage is one request that is forwarded to a host.
type passage struct {
	credential, hint string
	namespace        string // of its document
	poll             bool   // it may wait for work or events, and changes nothing meanwhile
	stream           bool   // its body is a stream of frames
	cancel           context.CancelCauseFunc
	closeBody        func() // ends the body of a stream, as if the client had
}

// drain cancels a poll, or ends the body of a stream. Other requests continue.
func (p *passage) drain(why error) {
	switch {
	case p.poll:
		p.cancel(why)
	case p.stream:
		p.closeBody()
	}
}

// flight holds the requests under way, by namespace, so that the gateway can end a request when its
// credential ends. The zero flight is ready for use.
type flight struct {
	mu       sync.Mutex
	passages map[string]map[*passage]struct{}
	draining error // the error that new polls get at once, while the bodies of new streams end; nil = not draining
}

// begin adds a request; end removes it.
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

// drain cancels all present and future polls, and ends the bodies of present and future streams.
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

// check ends the requests of a namespace for which shutOut returns an error.
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
