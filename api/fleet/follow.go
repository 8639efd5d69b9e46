package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/tenancy/token"
)

// MaxMessageBytes limits one line of a stream of documents. The largest document is smaller: one with the
// most keys, each with the longest scope.
const MaxMessageBytes = 32 << 20

// Follow configures a follower of the stream. Run calls these functions one at a time, in the order of the
// stream and in the goroutine that called Run. It skips a nil function.
type Follow struct {
	After int64 // the number of the newest known document; 0 = none
	// Keep stores messages that must survive a restart. It gets each document with a valid signature, before
	// OnDoc does, and documents that were received together in one call, so that one sync of a disk covers
	// them. It also gets the trusted keys, in a message without Doc, before the first document of a Run
	// and after each change of the keys. After an error the stream starts again, so that the messages come
	// again.
	Keep func(...Message) error
	// OnDoc handles a document. A placement has a higher number than all documents before it; keys and tokens may be
	// older than those that the follower has. After an error the stream starts again after the last handled document, so
	// that Keep and OnDoc get the failed one again.
	OnDoc func(Doc) error
	// OnNumber gets the number of each heartbeat. All documents up to that number have been handled.
	OnNumber func(int64)
}

// Run joins, renews the token and follows the documents until ctx ends, and then returns nil. It retries for
// ever, because a member must go on serving if the control plane is down or refuses the credential. If the
// control plane has superseded this process, Run returns a *SupersededError, and the member must serve
// nothing any more. The only other error is that another Run of the member has not returned.
func (m *Member) Run(ctx context.Context, f Follow) error {
	if !m.running.CompareAndSwap(false, true) {
		return errors.New("this member runs already")
	}
	defer m.running.Store(false)
	defer m.Close()
	if f.After > m.number.Load() {
		m.number.Store(f.After)
	}
	joined := make(chan struct{})
	var renewal sync.WaitGroup
	defer renewal.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	renewal.Go(func() { m.keepJoined(ctx, joined) })
	renewal.Go(func() {
		select {
		case <-ctx.Done():
		case <-m.fence.down:
			cancel()
		}
	})
	select {
	case <-ctx.Done():
		return m.fence.refusal()
	case <-joined:
	}
	s := stream{Member: m, Follow: f}
	status := condition{log: m.log, down: "the stream of documents has ended; the member keeps its documents and connects again", up: "the member follows the control plane's documents"}
	tries := backoff{}
	for ctx.Err() == nil {
		bearer := s.Token()
		alive := false
		err := s.follow(ctx, bearer, func() { alive = true; status.note(nil); tries.reset() })
		m.connected.Store(false)
		m.fence.check(err)
		if ctx.Err() != nil {
			break
		}
		if !alive || !errors.Is(err, errEnded) {
			status.note(err) // otherwise the stream ended in order, as at the end of each token
		}
		if api.CodeOf(err) == api.Unauthorized || m.config.Certificate != nil && m.config.Certificate.Stage() == certificate.Expired {
			// The timer of the next join stands still while the machine sleeps, so the certificate may expire before it.
			m.refused(bearer)
		}
		tries.wait(ctx, err)
	}
	return m.fence.refusal()
}

// stream follows the stream of documents for one Run, over all its connections.
type stream struct {
	*Member
	Follow
	kept *token.Set // the last keys that Keep stored
}

// errEnded means that the control plane closed the stream in order.
var errEnded = errors.New("the control plane has closed the stream")

// follow opens the stream and handles its messages, and calls alive after each. It returns when the stream
// ends, ctx ends or a message cannot be handled, always with an error.
func (s *stream) follow(ctx context.Context, bearer string, alive func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(SilenceLimit, func() {
		cancel(fmt.Errorf("the control plane has been silent for %s", SilenceLimit))
	})
	defer silence.Stop()
	at, base := s.endpoints.Current()
	request, err := s.request(ctx, base, http.MethodGet, DocsPath+"?after="+strconv.FormatInt(s.Number(), 10), bearer, nil)
	if err != nil {
		return err
	}
	answer, err := s.http.Do(request)
	if err != nil {
		s.endpoints.Leave(at)
		return cause(ctx, explained(err))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		if err = readError(answer); leaves(err) {
			s.endpoints.Leave(at)
		}
		return err
	}
	for reader := newLineReader(answer.Body); ; {
		lines, err := reader.next()
		if errors.Is(err, io.EOF) {
			return errEnded
		}
		if err != nil {
			s.endpoints.Leave(at)
			return cause(ctx, fmt.Errorf("read the stream of documents: %w", err))
		}
		// Only the wait for a message counts as silence, not the handling.
		silence.Stop()
		if err := s.take(ctx, lines); err != nil {
			return cause(ctx, err)
		}
		s.connected.Store(true)
		alive()
		silence.Reset(SilenceLimit)
	}
}

// cause returns the cause of the end of ctx, or err if ctx has not ended.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// take handles the messages that were received together. Documents that follow each other are kept together. After a
// message that cannot be handled, those before it count.
func (s *stream) take(ctx context.Context, lines [][]byte) error {
	var docs batch
	for _, line := range lines {
		var msg Message
		err := json.Unmarshal(line, &msg)
		switch {
		case err != nil:
			err = fmt.Errorf("a line of the stream is no message: %w", err)
		case len(msg.Doc) > 0 && len(msg.JWKS) == 0:
			err = s.add(ctx, &docs, msg)
		default:
			// The keys may verify or refuse later documents only, and a heartbeat says that the earlier ones were handled.
			if err := s.handle(&docs); err != nil {
				return err
			}
			err = s.takeOther(ctx, &docs, msg)
		}
		if err != nil {
			return cmp.Or(s.handle(&docs), err)
		}
	}
	return s.handle(&docs)
}

// takeOther handles a message that is more than a document: one with keys, or a heartbeat.
func (s *stream) takeOther(ctx context.Context, docs *batch, msg Message) error {
	if len(msg.JWKS) > 0 {
		if err := s.trust(msg.JWKS); err != nil {
			return err
		}
	}
	if len(msg.Doc) > 0 {
		return s.add(ctx, docs, msg)
	}
	s.takeRoots(msg)
	if err := s.keepKeys(); err != nil {
		return err
	}
	s.advance(msg.Number)
	s.lastHeartbeat.Store(s.config.Now().UnixNano())
	if s.OnNumber != nil {
		s.OnNumber(msg.Number)
	}
	s.pulse.received(true)
	return nil
}

// keepKeys stores new keys, before any document that may need them.
func (s *stream) keepKeys() error {
	set := s.trusted.Load()
	if s.Keep == nil || s.kept == set {
		return nil
	}
	if s.kept == nil || !bytes.Equal(s.kept.JWKS(), set.JWKS()) {
		if err := s.Keep(Message{Number: s.Number(), JWKS: set.JWKS()}); err != nil {
			return fmt.Errorf("keep the control plane's keys: %w", err)
		}
	}
	s.kept = set
	return nil
}

// batch is a sequence of verified documents that are kept together.
type batch struct {
	messages []Message
	docs     []Doc
}

// add verifies a document's signature before it decodes the document, and adds a new document to a batch.
func (s *stream) add(ctx context.Context, b *batch, msg Message) error {
	if err := s.keepKeys(); err != nil {
		return err
	}
	err := s.Trusted().VerifyDocument(msg.Doc, msg.Signature)
	if errors.Is(err, token.ErrUnknownKey) {
		if err := s.refetch(ctx); err != nil {
			return err
		}
		if err := s.keepKeys(); err != nil {
			return err
		}
		err = s.Trusted().VerifyDocument(msg.Doc, msg.Signature)
	}
	if err != nil {
		// Format the error as text, because an *api.Error UNAUTHORIZED would mean that our own token was
		// refused.
		return fmt.Errorf("document %d is not taken: %s", msg.Number, err)
	}
	d, err := msg.document()
	if err != nil {
		return err
	}
	at := s.Number()
	if len(b.docs) > 0 {
		at = max(at, b.docs[len(b.docs)-1].Number)
	}
	// Older keys and tokens may come before a placement that needs them: see Message.Number.
	if d.IsPlacement() && d.Number <= at {
		return nil // the member has handled it before, in this run or before it (Follow.After)
	}
	msg.JWKS = nil // keepKeys has stored them
	b.messages, b.docs = append(b.messages, msg), append(b.docs, d)
	return nil
}

// handle keeps the documents of a batch, calls OnDoc with each of them, and empties the batch.
func (s *stream) handle(b *batch) error {
	messages, docs := b.messages, b.docs
	*b = batch{}
	if len(docs) == 0 {
		return nil
	}
	if s.Keep != nil {
		if err := s.Keep(messages...); err != nil {
			return fmt.Errorf("keep %d documents from %d on: %w", len(docs), docs[0].Number, err)
		}
	}
	for _, d := range docs {
		if s.OnDoc != nil {
			if err := s.OnDoc(d); err != nil {
				return fmt.Errorf("document %d (%s of %s): %w", d.Number, d.subject().kind, d.subject().id, err)
			}
		}
		s.advance(d.Number)
		s.pulse.received(false)
	}
	return nil
}

// document decodes the document of a message. The signature does not cover the message's number, so that
// number must equal the document's own.
func (m Message) document() (Doc, error) {
	var d Doc
	// json.Unmarshal would scan the text twice before it calls this method.
	if err := d.UnmarshalJSON(m.Doc); err != nil {
		return Doc{}, fmt.Errorf("document %d does not read: %w", m.Number, err)
	}
	switch {
	case d.Format > DocFormat:
		return Doc{}, fmt.Errorf("document %d has format %d and this version reads at most %d: upgrade it", m.Number, d.Format, DocFormat)
	case d.Number != m.Number || d.Number <= 0 || d.subject().id == "":
		return Doc{}, fmt.Errorf("document %d says of itself that it is number %d of kind %q, of namespace %q and organisation %q",
			m.Number, d.Number, d.Kind, d.Namespace, d.Org)
	}
	return d, nil
}

// advance raises the number of the newest handled document. It never lowers it.
func (m *Member) advance(number int64) {
	if number > m.number.Load() {
		m.number.Store(number)
	}
}

// backoff is the wait between tries. It doubles up to mostWait, and half of it is random, so that members
// that lost the control plane together do not return together.
type backoff struct{ tries int }

func (b *backoff) reset() { b.tries = 0 }

// wait waits until the next try or until ctx ends. It waits at least for the RetryAfter of err, but never
// longer than mostWait.
func (b *backoff) wait(ctx context.Context, err error) {
	d := min(firstWait<<min(b.tries, 16), mostWait)
	b.tries++
	d = d/2 + rand.N(d/2+1)
	var e *api.Error
	if errors.As(err, &e) {
		d = max(d, min(e.RetryAfter, mostWait))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
