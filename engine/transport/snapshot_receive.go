package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/image"
)

// transfer is a snapshot that is being received.
type transfer struct {
	net   net.Conn
	done  chan struct{} // closed when the transfer no longer uses the Staging
	ended sync.Once
}

func (x *transfer) stop() { _ = x.net.Close() } // the error does not matter, because the transfer is abandoned

// beginTransfer makes x the group's transfer and returns the previous one, or nil, for the caller to stop. A
// leader begins a transfer only after it has lost the connection of the previous one, or has replaced the
// leader that sent it.
func (g *Group) beginTransfer(x *transfer) (before *transfer, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	before, g.incoming = g.incoming, x
	g.wg.Add(1)
	return before, nil
}

func (g *Group) endTransfer(x *transfer) {
	x.ended.Do(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.incoming == x {
			g.incoming = nil
		}
		close(x.done)
		g.wg.Done()
	})
}

// receiveSnapshot serves a connection that was opened for a snapshot.
func (t *Transport) receiveSnapshot(c net.Conn, from string) {
	l := &transferConn{net: c}
	stop := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() { l.sendWorking(stop) })
	answer, err := t.receiveBounded(l, from)
	close(stop)
	working.Wait()
	_ = c.SetWriteDeadline(time.Now().Add(snapshotIdleTimeout))
	if err == nil {
		err = l.write(header{kind: frameAnswer}, answer)
	} else if !errors.Is(err, ErrMalformed) {
		err = errors.Join(err, l.write(header{kind: frameFault}, encodeFault(faultRaft, err)))
	}
	if err != nil && t.ctx.Err() == nil {
		t.log.Warn("a snapshot could not be received", "node", from, "error", err)
	}
	t.linger(c)
}

// linger waits so that the sender can read the answer. Closing a connection with unread bytes resets it, and
// the answer, such as a refusal, is lost.
func (t *Transport) linger(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(RPCTimeout))
	_, _ = io.Copy(io.Discard, c) // until the sender closes, or the deadline
}

func (l *transferConn) sendWorking(stop chan struct{}) {
	tick := time.NewTicker(workingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = l.net.SetWriteDeadline(time.Now().Add(snapshotIdleTimeout))
			if l.write(header{kind: frameWorking}, nil) != nil {
				_ = l.net.Close() // the sender is gone
				return
			}
		case <-stop:
			return
		}
	}
}

// receiveBounded receives a snapshot, unless the sender already sends too many.
func (t *Transport) receiveBounded(l *transferConn, from string) ([]byte, error) {
	t.mu.Lock()
	p := t.peer(from)
	p.receiving++
	busy := p.receiving > maxReceiving
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		p.receiving--
		t.mu.Unlock()
	}()
	if busy {
		return nil, fmt.Errorf("node %q receives %d snapshots from node %q already", t.id, maxReceiving, from)
	}
	return t.takeSnapshot(l, from)
}

// takeSnapshot runs the receiver's side of the protocol, except for the answer.
func (t *Transport) takeSnapshot(l *transferConn, from string) ([]byte, error) {
	b, err := l.message(frameSnapshot, MaxManifest)
	if err != nil {
		return nil, err
	}
	o, err := decodeOffer(b)
	if err != nil {
		return nil, err
	}
	g, err := t.enter(o.groupKey, from)
	if err != nil {
		return nil, err
	}
	staging := g.staging.Load()
	switch {
	case staging == nil:
		return nil, fmt.Errorf("group %q takes no snapshots on node %q", o.name, t.id)
	case len(o.request.ID) > 0 && string(o.request.ID) != from:
		return nil, fmt.Errorf("node %q speaks for %q", from, o.request.ID)
	case o.request.Size > MaxManifest:
		return nil, malformed("a manifest of %d bytes", o.request.Size)
	}
	x := &transfer{net: l.net, done: make(chan struct{})}
	before, err := g.beginTransfer(x)
	if err != nil {
		return nil, err
	}
	defer g.endTransfer(x)
	if before != nil {
		before.stop()
		<-before.done
	}
	manifest, err := l.takeParts(*staging, o)
	if err != nil {
		return nil, err
	}
	answer, err := g.submit(raft.RPC{Command: o.request, Reader: bytes.NewReader(manifest)})
	if err != nil {
		return nil, err
	}
	return encodeResponse(answer)
}

// takeParts stores the missing parts and returns the manifest.
func (l *transferConn) takeParts(staging image.Staging, o offer) ([]byte, error) {
	missing, err := staging.Missing(o.parts)
	if err != nil {
		return nil, fmt.Errorf("what is staged: %w", err)
	}
	indexes, err := indexesOf(missing, o.parts)
	if err != nil {
		return nil, err
	}
	_ = l.net.SetWriteDeadline(time.Now().Add(snapshotIdleTimeout))
	if err := l.write(header{kind: frameMissing}, appendMissing(nil, indexes)); err != nil {
		return nil, err
	}
	for _, i := range indexes {
		r := &partReader{conn: l, index: uint64(i)}
		if err := staging.Store(o.parts[i], r); err != nil {
			return nil, fmt.Errorf("store part %s: %w", o.parts[i].Name, err)
		}
		if n, err := io.Copy(io.Discard, r); n > 0 || err != nil {
			return nil, malformed("part %s goes on behind its end: %d bytes, %v", o.parts[i].Name, n, err)
		}
	}
	manifest, err := l.message(frameManifest, MaxManifest)
	if err == nil && int64(len(manifest)) != o.request.Size {
		err = malformed("a manifest of %d bytes, not %d", len(manifest), o.request.Size)
	}
	return manifest, err
}

func indexesOf(missing, parts []image.Part) ([]int, error) {
	at := make(map[string]int, len(parts))
	for i, p := range parts {
		at[p.Name] = i
	}
	indexes := make([]int, 0, len(missing))
	for _, p := range missing {
		i, ok := at[p.Name]
		if !ok {
			return nil, fmt.Errorf("what is staged: part %s is missing, and not in the snapshot", p.Name)
		}
		indexes = append(indexes, i)
	}
	return indexes, nil
}
