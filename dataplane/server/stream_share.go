package server

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/tenancy"
)

// On a host of the cloud, one namespace may have at most 1/namespaceShare of the open streams and of the
// frames in progress. So a tenant that uses all of its share leaves room for the others.
const namespaceShare = 2

// share counts the streams and frames of one namespace on a shared host.
type share struct {
	streams int64
	frames  chan struct{} // has one element for each frame in progress
}

// shares has the share of each namespace with open streams.
type shares struct {
	mu sync.Mutex
	of map[tenancy.NamespaceID]*share
}

// shareOf returns the part of a host's limit that one namespace may use, at least 1.
func shareOf(most int64) int64 { return max(1, most/namespaceShare) }

// enterStream admits one more stream of a namespace and returns the room that bounds its frames. The caller
// must call leaveStream. At a bound of open streams the error is OVERLOADED.
func (s *Server) enterStream(of tenancy.NamespaceID) (room, error) {
	if !s.streams.take(1) {
		return nil, tooManyStreams("%d streams are open on this node, the maximum: share one among more workers, or use another node", s.streams.most)
	}
	if !s.cloud() {
		return room{s.frames}, nil
	}
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	mine := s.shares.of[of]
	if mine == nil {
		mine = &share{frames: make(chan struct{}, shareOf(int64(s.cfg.StreamFrames)))}
		s.shares.of[of] = mine
	}
	if most := shareOf(s.streams.most); mine.streams >= most {
		s.streams.give(1)
		return nil, tooManyStreams("%d streams of this namespace are open, the maximum: share one among more workers", most)
	}
	mine.streams++
	return room{mine.frames, s.frames}, nil
}

func (s *Server) leaveStream(of tenancy.NamespaceID) {
	s.streams.give(1)
	if !s.cloud() {
		return
	}
	s.shares.mu.Lock()
	defer s.shares.mu.Unlock()
	mine := s.shares.of[of]
	if mine.streams--; mine.streams == 0 {
		delete(s.shares.of, of)
	}
}

func tooManyStreams(message string, most int64) error {
	err := api.Errorf(api.Overloaded, message, most)
	err.RetryAfter = overloadRetry
	return err
}

// room bounds the frames in progress, first in their namespace and then on the node. A frame that waits for
// its namespace takes no room from others.
type room []chan struct{}

// take waits for room. It returns false if done closes first.
func (r room) take(done <-chan struct{}) bool {
	for i, in := range r {
		select {
		case in <- struct{}{}:
		case <-done:
			r[:i].give()
			return false
		}
	}
	return true
}

func (r room) give() {
	for _, in := range r {
		<-in
	}
}

// keyRate delays the frames of a stream to keep the rate limits. A frame counts as a request against the
// limits, but it is not refused: the server reads it later, so that it waits in its client.
type keyRate struct {
	limits *ratelimit.Limiter // nil = no limits
	key    *ratelimit.Bucket
	from   netip.Addr
	now    func() time.Time
}

// keyRateOf returns the rate limits of an authenticated stream. With Dev and on a host of the cloud there are
// none.
func (s *Server) keyRateOf(r *http.Request, who tenancy.Principal) keyRate {
	if s.cfg.Dev || s.cloud() || !s.limits.Any() {
		return keyRate{}
	}
	return keyRate{&s.limits, &s.keyUses.of(who.KeyID).rate, s.limits.ClientAddress(r), s.cfg.Now}
}

// next returns the wait before the next frame, and charges that frame to the limits.
func (t *keyRate) next() time.Duration {
	if t.limits == nil {
		return 0
	}
	return t.limits.Reserve(t.key, t.from, t.now())
}
