package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// The bounds of waiting for news of a credential.
const (
	// EnterPatience is how long at most a credential that is unknown is waited for.
	EnterPatience = 3 * HeartbeatEvery
	// enterBeats is how many heartbeats prove that nothing is on its way: the first
	// may have been sent before the request came.
	enterBeats = 2
	// MaxWaiting bounds the requests that wait; one too many is refused at once.
	MaxWaiting = 1000
	// StrangerFor is how long a credential that was waited for in vain, or has just
	// ended, is refused without waiting.
	StrangerFor = 10 * time.Second
	// maxStrangers bounds those that are remembered.
	maxStrangers = 10_000
)

// Enter is book's Enter for a request that may be ahead of the documents: what the
// control plane has made a moment ago, and told its maker of, must open the door at
// once. A credential or a namespace that the book does not know is therefore
// refused as unknown only when the control plane has had nothing more to say since;
// while that is not known the error is LEADER_UNAVAILABLE. good says
// whether the namespace can be entered as it stands; nil = always.
func (m *Member) Enter(ctx context.Context, book *Book, credential, hint string, good func(Doc) bool) (who tenancy.Principal, doc Doc, err error) {
	var news bool
	switch proven := m.Await(ctx, func() bool { who, doc, news, err = m.ask(book, credential, hint, good); return !news }); {
	case proven:
		book.estrange(credential, m.config.Now())
	case news && err != nil:
		err = unsure()
	}
	return who, doc, err
}

// unsure refuses a request whose credential or namespace may be in a document that
// has not come. A worker that is told that its key is wrong gives up, so it is told
// only if that is known.
func unsure() *api.Error {
	e := api.Errorf(api.LeaderUnavailable, "it is not known yet whether the key or token is good, or the namespace there: nothing was done, try again")
	e.RetryAfter = HeartbeatEvery
	return e
}

// Await waits until so, or until the control plane has had nothing more to say since
// the call: proven says that it was the latter. It gives up early, and proves
// nothing, after EnterPatience, at the end of ctx, while the control plane is away,
// and when too many wait. so is asked at once and after every message.
func (m *Member) Await(ctx context.Context, so func() bool) (proven bool) {
	if so() || !m.Connected() || !m.pulse.wait() {
		return false
	}
	defer m.pulse.leave()
	ctx, cancel := context.WithTimeout(ctx, EnterPatience)
	defer cancel()
	for first := m.pulse.heartbeats(); ; {
		beat := m.pulse.next()
		enough := m.pulse.heartbeats() >= first+enterBeats
		switch {
		case so():
			return false
		case enough:
			return true
		}
		select {
		case <-beat:
		case <-ctx.Done():
			return false
		}
	}
}

// ask asks the book, and says whether a document on its way could change the
// answer.
func (m *Member) ask(book *Book, credential, hint string, good func(Doc) bool) (who tenancy.Principal, doc Doc, news bool, err error) {
	now := m.config.Now()
	if who, doc, err = book.Enter(credential, hint, now); api.CodeOf(err) == api.Unauthorized {
		if book.unheardOf(credential, now) {
			return who, doc, true, err
		}
		who, doc, err = book.Enter(credential, hint, now) // it may have been heard of in between
	}
	switch api.CodeOf(err) {
	case "":
		news = good != nil && !good(doc)
	case api.NotFound:
		news = true
	}
	return who, doc, news, err
}

// unheardOf says whether a credential has the form of one and names a key that is
// in no document, and was not lately.
func (b *Book) unheardOf(credential string, now time.Time) bool {
	kind, id, ok := keyring.Parse(credential)
	if !ok || kind != keyring.Namespace && kind != keyring.Org {
		return false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.keys[id] == nil && !now.Before(b.strangers[id])
}

// estrange remembers a credential that is not known.
func (b *Book) estrange(credential string, now time.Time) {
	_, id, ok := keyring.Parse(credential)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addStranger(id, now.Add(StrangerFor))
}

// revoked remembers the keys that were on a page and are on none any more: nobody
// need wait to be told so. The lock is held.
func (b *Book) revoked(old *page) {
	for id := range old.keys {
		if b.keys[id] == nil {
			b.addStranger(id, time.Now().Add(StrangerFor))
		}
	}
}

// addStranger remembers an id. The lock is held.
func (b *Book) addStranger(id string, until time.Time) {
	if b.strangers == nil || len(b.strangers) >= maxStrangers {
		b.strangers = make(map[string]time.Time)
	}
	b.strangers[id] = until
}

// pulse is what a member hears: every message wakes, heartbeats are counted.
type pulse struct {
	mu      sync.Mutex
	beats   uint64
	woken   chan struct{} // closed at the next message; nil while nobody waits
	waiting int
}

// heard is called after a message was handled.
func (p *pulse) heard(heartbeat bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if heartbeat {
		p.beats++
	}
	if p.woken != nil {
		close(p.woken)
		p.woken = nil
	}
}

// next is closed at the next message.
func (p *pulse) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.woken == nil {
		p.woken = make(chan struct{})
	}
	return p.woken
}

func (p *pulse) heartbeats() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beats
}

// wait takes a place among those who wait, if there is one.
func (p *pulse) wait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting >= MaxWaiting {
		return false
	}
	p.waiting++
	return true
}

func (p *pulse) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
}
