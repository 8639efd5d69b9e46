package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
	"github.com/corvo/corvo/tenancy/keyring"
)

// These constants limit the wait for the document of an unknown key.
const (
	// UnknownKeyWait is the longest wait for the document of an unknown key.
	UnknownKeyWait = 3 * HeartbeatEvery
	// provingHeartbeats is the number of heartbeats that prove that no document is on its way. One is not
	// enough, because it may have been sent before the request came.
	provingHeartbeats = 2
	// MaxWaiting is the largest number of waiting requests. A further one does not wait.
	MaxWaiting = 1000
	// UnknownKeyTTL is the time for which a key is refused without a wait, after the key was revoked or a
	// wait for it was in vain. A document with the key ends that time.
	UnknownKeyTTL = 10 * time.Second
	// maxUnknownKeys is the number of remembered unknown keys at which the directory forgets them all.
	maxUnknownKeys = 10_000
)

// Authenticate authenticates a request by the directory. If the directory does not know the key or the
// namespace, a document with them may still be on its way, because a key works as soon as the control plane
// has answered its creation. So Authenticate waits as Await does, and refuses the request only when later
// heartbeats have proved that there is no such document. If the wait ends without a proof, the error is
// LEADER_UNAVAILABLE. The other errors are those of Directory.Authenticate.
//
// good reports whether the namespace can be used in its present state; nil accepts every state. If good
// returns false, Authenticate waits for a better document. If none comes, Authenticate returns the last one
// without an error.
func (m *Member) Authenticate(ctx context.Context, directory *Directory, credential, hint string, good func(Doc) bool) (who tenancy.Principal, doc Doc, err error) {
	var news bool
	switch proven := m.Await(ctx, func() bool { who, doc, news, err = m.ask(directory, credential, hint, good); return !news }); {
	case proven:
		directory.rememberUnknown(credential, m.config.Now())
	case news && err != nil:
		err = undecided()
	}
	return who, doc, err
}

// undecided returns the error for a key or namespace that may be in a document on its way. It is not
// UNAUTHORIZED, because a worker whose key is refused gives up.
func undecided() *api.Error {
	e := api.Errorf(api.LeaderUnavailable, "the key, token or namespace could not be checked yet: nothing was done, try again")
	e.RetryAfter = HeartbeatEvery
	return e
}

// Await waits until done returns true, or until heartbeats have proved that no document is on its way. proven
// is true only in the second case. Await gives up after UnknownKeyWait, at the end of ctx, and at once if the
// member is not connected to the control plane or MaxWaiting requests wait already. It calls done at once,
// and again after every heartbeat and every new document.
func (m *Member) Await(ctx context.Context, done func() bool) (proven bool) {
	if done() || !m.Connected() || !m.pulse.wait() {
		return false
	}
	defer m.pulse.leave()
	ctx, cancel := context.WithTimeout(ctx, UnknownKeyWait)
	defer cancel()
	for first := m.pulse.heartbeats(); ; {
		beat := m.pulse.next()
		enough := m.pulse.heartbeats() >= first+provingHeartbeats
		switch {
		case done():
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

// ask authenticates a request by the directory as it is, and reports in news whether a document on its
// way could change the result.
func (m *Member) ask(directory *Directory, credential, hint string, good func(Doc) bool) (who tenancy.Principal, doc Doc, news bool, err error) {
	now := m.config.Now()
	if who, doc, err = directory.Authenticate(credential, hint, now); api.CodeOf(err) == api.Unauthorized {
		if directory.mayBeNew(credential, now) {
			return who, doc, true, err
		}
		who, doc, err = directory.Authenticate(credential, hint, now) // its document may have come in between
	}
	switch api.CodeOf(err) {
	case "":
		news = good != nil && !good(doc)
	case api.NotFound:
		news = true
	}
	return who, doc, news, err
}

// mayBeNew reports whether a document with the credential's key may be on its way: the credential has the
// valid form of a key or token of a tenant, the documents do not make its key usable, and unknownKeys does not exclude
// it.
func (dir *Directory) mayBeNew(credential string, now time.Time) bool {
	kind, id, ok := keyring.Parse(credential)
	if !ok || kind != keyring.Namespace && kind != keyring.Org {
		return false
	}
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	return dir.usable(kind, id) == nil && !now.Before(dir.unknownKeys[id])
}

// rememberUnknown adds the key of a credential to unknownKeys.
func (dir *Directory) rememberUnknown(credential string, now time.Time) {
	_, id, ok := keyring.Parse(credential)
	if !ok {
		return
	}
	dir.mu.Lock()
	defer dir.mu.Unlock()
	dir.addUnknown(id, now.Add(UnknownKeyTTL))
}

// addUnknown adds an id to unknownKeys. The caller holds the lock.
func (dir *Directory) addUnknown(id string, until time.Time) {
	if dir.unknownKeys == nil || len(dir.unknownKeys) >= maxUnknownKeys {
		dir.unknownKeys = make(map[string]time.Time)
	}
	dir.unknownKeys[id] = until
}

// pulse wakes the waiting requests at every heartbeat and new document, and counts the heartbeats.
type pulse struct {
	mu      sync.Mutex
	beats   uint64
	woken   chan struct{} // closed at the next message; nil while no request waits
	waiting int
}

// received is called after a heartbeat or a new document was handled.
func (p *pulse) received(heartbeat bool) {
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

// next returns a channel that is closed at the next message.
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

// wait takes one of the MaxWaiting places. It returns false if none is free.
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
