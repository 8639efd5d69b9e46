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

// InstallSnapshot implements raft.Transport. data must also be an image.Source. The parts that the member
// lacks are sent first, into its Staging; then the bytes that raft reads there, in one piece of at most
// MaxManifest bytes. InstallSnapshot waits while maxSending other snapshots are being sent to that node.
func (g *Group) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	source, ok := data.(image.Source)
	if !ok {
		return fmt.Errorf("a snapshot is sent in parts, and a %T has none", data)
	}
	leave, err := g.waitToSend(string(id))
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
	defer g.t.untrack(l.socket)
	defer context.AfterFunc(g.ctx, func() { _ = l.socket.Close() })()
	s := &sending{transferConn: transferConn{net: l}, source: source, frames: make(chan frame, 1), stopped: make(chan struct{})}
	defer s.stop(l.socket)
	s.reading.Go(s.readFrames)
	answer, err := s.send(offer{g.groupKey, args, source.Parts()}, manifest)
	if err != nil {
		return g.explain(id, err)
	}
	return decodeSnapshotResponse(answer, resp)
}

// waitToSend waits until a snapshot may be sent to a node. The caller calls leave after the transfer.
func (g *Group) waitToSend(id string) (leave func(), err error) {
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

// send runs the sender's side of the protocol.
func (s *sending) send(o offer, manifest []byte) ([]byte, error) {
	table := o.append(nil)
	if len(table) > MaxManifest {
		return nil, fmt.Errorf("the table of %d parts has more than %d bytes", len(o.parts), MaxManifest)
	}
	if err := s.writeMessage(header{kind: frameSnapshot}, table); err != nil {
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
	if err := s.writeMessage(header{kind: frameManifest}, manifest); err != nil {
		return nil, err
	}
	return s.expect(frameAnswer)
}

// part sends the bytes of a part, which must have the announced size.
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

// frame is a received frame, or the error of receiving it.
type frame struct {
	header
	payload []byte
	err     error
}

// sending is the sender's end of a transfer. While it writes, one goroutine reads, because the receiver may
// refuse at any time, and because each of its frames extends the deadline of a write.
type sending struct {
	transferConn
	source  image.Source
	frames  chan frame
	stopped chan struct{} // closed when nothing receives from frames any more
	reading sync.WaitGroup
}

func (s *sending) stop(c net.Conn) {
	close(s.stopped)
	_ = c.Close() // ends readFrames
	s.reading.Wait()
}

func (s *sending) readFrames() {
	for {
		h, payload, err := s.frame()
		if err == nil {
			err = s.net.SetWriteDeadline(time.Now().Add(snapshotIdleTimeout))
		}
		if err == nil && h.kind == frameWorking {
			continue
		}
		select {
		case s.frames <- frame{h, payload, err}:
		case <-s.stopped:
			return
		}
		if err != nil {
			return
		}
	}
}

// writeMessage writes a message. If that fails, the error includes the receiver's reason if one arrives soon.
func (s *sending) writeMessage(h header, payload []byte) error {
	return s.write(appendFrames(nil, h, payload))
}

func (s *sending) write(frames []byte) error {
	select {
	case f := <-s.frames:
		return f.unexpected()
	default:
	}
	_, err := s.net.Write(frames)
	if err == nil {
		return nil
	}
	select {
	case f := <-s.frames:
		return errors.Join(f.unexpected(), err)
	case <-time.After(RPCTimeout):
		return err
	}
}

// expect waits for a message of a kind.
func (s *sending) expect(kind frameKind) ([]byte, error) {
	var all []byte
	for f := range s.frames {
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

// unexpected returns the error for a frame that was not expected.
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

// callForSnapshot opens a connection for a snapshot, at the address of the peer's connection for messages.
func (t *Transport) callForSnapshot(ctx context.Context, to Peer) (*link, error) {
	if to.ID == t.id || to.ID == "" {
		return nil, fmt.Errorf("a snapshot cannot be sent to node %q", to.ID)
	}
	// The connection for messages tells whether the peer is reachable. An unreachable peer is not dialled
	// separately for its snapshot.
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := t.connection(ctx, to)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	address := c.address
	t.mu.Unlock()
	l, _, err := t.openLink(to.ID, address, forSnapshot)
	return l, err
}
