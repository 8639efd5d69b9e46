package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/image"
)

// InstallSnapshot sends a snapshot. data must also be an image.Source: what raft
// reads of it at the other end is sent as it is, in one piece of at most
// MaxManifest bytes; the parts go to the member's Staging first, those that it is
// missing. It waits while maxSending others are on their way to that node.
func (g *Group) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	source, ok := data.(image.Source)
	if !ok {
		return fmt.Errorf("a snapshot is sent in parts, and a %T has none", data)
	}
	leave, err := g.awaitTurn(string(id))
	if err != nil {
		return g.explain(id, err)
	}
	defer leave()
	manifest, err := io.ReadAll(io.LimitReader(data, MaxManifest+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the snapshot: %w", err)
	case len(manifest) > MaxManifest:
		return fmt.Errorf("the snapshot's manifest has more than %d bytes", MaxManifest)
	case int64(len(manifest)) != args.Size:
		return fmt.Errorf("the snapshot's manifest has %d bytes, not %d as it says", len(manifest), args.Size)
	}
	l, err := g.t.callForSnapshot(g.ctx, Peer{ID: string(id), Address: string(target)})
	if err != nil {
		return g.explain(id, err)
	}
	defer g.t.disown(l.socket)
	defer context.AfterFunc(g.ctx, func() { _ = l.socket.Close() })()
	s := &sending{line: line{net: l}, source: source, heard: make(chan frame, 1), gone: make(chan struct{})}
	defer s.stop(l.socket)
	s.listening.Go(s.listen)
	answer, err := s.send(offer{g.groupKey, args, source.Parts()}, manifest)
	if err != nil {
		return g.explain(id, err)
	}
	return decodeSnapshotResponse(answer, resp)
}

// awaitTurn waits until a snapshot may be sent to a node.
func (g *Group) awaitTurn(id string) (leave func(), err error) {
	g.t.mu.Lock()
	sending := g.t.peer(id).sending
	g.t.mu.Unlock()
	select {
	case sending <- struct{}{}:
		return func() { <-sending }, nil
	case <-g.ctx.Done():
		return nil, g.ctx.Err()
	}
}

// send is the sender's part of the conversation.
func (s *sending) send(o offer, manifest []byte) ([]byte, error) {
	table := o.append(nil)
	if len(table) > MaxManifest {
		return nil, fmt.Errorf("the table of %d parts has more than %d bytes", len(o.parts), MaxManifest)
	}
	if err := s.say(header{kind: frameSnapshot}, table); err != nil {
		return nil, err
	}
	b, err := s.expect(frameMissing)
	if err != nil {
		return nil, err
	}
	missing, err := decodeMissing(b, len(o.parts))
	if err != nil {
		return nil, err
	}
	for _, i := range missing {
		if err := s.part(uint64(i), o.parts[i]); err != nil {
			return nil, fmt.Errorf("part %s: %w", o.parts[i].Name, err)
		}
	}
	if err := s.say(header{kind: frameManifest}, manifest); err != nil {
		return nil, err
	}
	return s.expect(frameAnswer)
}

// part sends the bytes of a part, which must be as many as it says.
func (s *sending) part(index uint64, p image.Part) (err error) {
	r, err := s.source.Open(p.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	chunk := make([]byte, MaxFrame)
	for left := p.Size; ; {
		n := min(left, MaxFrame)
		if _, err := io.ReadFull(r, chunk[:n]); err != nil {
			return fmt.Errorf("it ends %d bytes early: %w", left, noEOF(err))
		}
		left -= n
		h := header{length: uint32(n), kind: framePart, request: index}
		if left > 0 {
			h.flags = flagMore
		}
		if err := s.write(append(h.append(nil), chunk[:n]...)); err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
	}
}

// frame is one that was read, or why none was.
type frame struct {
	header
	payload []byte
	err     error
}

// sending is the sender's end of a transfer. While it writes, one goroutine reads:
// the receiver may refuse at any time, and each of its frames says that it is
// there, which allows a write to go on.
type sending struct {
	line
	source    image.Source
	heard     chan frame
	gone      chan struct{} // closed when nobody takes from heard any more
	listening sync.WaitGroup
}

func (s *sending) stop(c net.Conn) {
	close(s.gone)
	_ = c.Close() // ends listen
	s.listening.Wait()
}

func (s *sending) listen() {
	for {
		h, payload, err := s.frame()
		if err == nil {
			err = s.net.SetWriteDeadline(time.Now().Add(snapshotPatience))
		}
		if err == nil && h.kind == frameWorking {
			continue
		}
		select {
		case s.heard <- frame{h, payload, err}:
		case <-s.gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// say writes a message. When that fails, what the receiver has said is why.
func (s *sending) say(h header, payload []byte) error {
	return s.write(appendFrames(nil, h, payload))
}

func (s *sending) write(frames []byte) error {
	select {
	case f := <-s.heard:
		return f.unexpected()
	default:
	}
	_, err := s.net.Write(frames)
	if err == nil {
		return nil
	}
	select {
	case f := <-s.heard:
		return errors.Join(f.unexpected(), err)
	case <-time.After(RPCTimeout):
		return err
	}
}

// expect waits for a message of a kind.
func (s *sending) expect(kind frameKind) ([]byte, error) {
	var all []byte
	for f := range s.heard {
		if f.err != nil || f.kind != kind {
			return nil, f.unexpected()
		}
		if len(all)+len(f.payload) > MaxManifest {
			return nil, malformed("a message of more than %d bytes", MaxManifest)
		}
		if all = append(all, f.payload...); !f.more() {
			break
		}
	}
	return all, nil
}

// unexpected is the error that a frame is when another was due.
func (f frame) unexpected() error {
	if f.err != nil {
		return noEOF(f.err)
	}
	if f.kind != frameFault {
		return malformed("a frame of kind %d in a snapshot's transfer", f.kind)
	}
	fault, err := decodeFault(f.payload)
	if err != nil {
		return err
	}
	return fault
}

// callForSnapshot makes a connection at one of the addresses of a peer.
func (t *Transport) callForSnapshot(ctx context.Context, to Peer) (*link, error) {
	if to.ID == t.id || to.ID == "" {
		return nil, fmt.Errorf("a snapshot cannot be sent to node %q", to.ID)
	}
	// The connection for messages knows whether the peer is there: one that is not is
	// not called for its snapshot either, but as often as for all else.
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := t.connection(ctx, to)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	address := c.address
	t.mu.Unlock()
	l, _, err := t.call(to.ID, address, forSnapshot)
	return l, err
}
