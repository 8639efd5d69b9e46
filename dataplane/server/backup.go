package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/backup"
	"github.com/corvo/corvo/dataplane/state"
)

// backupWrite is the time that a client has to read one part of a backup. It is bounded because the stores
// keep all data that is overwritten while the backup runs.
const backupWrite = time.Minute

// backupQuery lists the query parameters of a backup.
var backupQuery = []serve.Param{
	{Name: "consistency", Doc: "consistency: strong (default; includes every acknowledged write) or eventual (this node's state, also without a leader)"},
}

// backup sends a consistent cut of the states of all shards (see backup.Cut), as this node has them. The
// answer contains the whole namespace, including payloads and the hashes of keys. A node sends one backup at
// a time and refuses another with CONFLICT, because each reads all data.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	switch {
	case s.cloud():
		return api.Errorf(api.Unsupported, "tenants cannot back up a cloud namespace: export jobs with searches")
	case s.draining.Err() != nil:
		return again(api.Errorf(api.LeaderUnavailable, "this node is shutting down: ask another"))
	case !s.backing.CompareAndSwap(false, true):
		return api.Errorf(api.Conflict, "a backup of this node is under way: wait until it has ended, or ask another node")
	}
	defer s.backing.Store(false)
	if err := s.awaitBackedUp(r, &q); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	stores := make([]*state.Store, 0, q.shards.Count())
	for _, c := range q.shards.All() {
		stores = append(stores, c.State())
	}
	cut, err := backup.Take(ctx, stores)
	if err != nil {
		return err
	}
	began := time.Now()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", "corvo-"+began.UTC().Format("20060102T150405Z")+".backup"))
	h.Set("Cache-Control", "no-store")
	out := &backupStream{ctx: ctx, to: w, control: http.NewResponseController(w)}
	_, err = cut.Write(out, string(q.who.Namespace), s.cfg.Version, began)
	if closed := cut.Close(); err == nil {
		err = closed
	}
	if err != nil {
		// If a part was sent, the server cuts the connection, so that the client knows that it has no backup.
		// The log gives the reason.
		s.cfg.Logger.Warn("the node cut a backup short", "bytes", out.bytes, "error", err)
		return err
	}
	s.cfg.Logger.Info("the node sent a backup", "bytes", out.bytes, "duration", time.Since(began).Round(time.Millisecond))
	return nil
}

// awaitBackedUp waits until this node has every write that any node acknowledged before the request. With
// consistency=eventual it does not wait, because this node may be all that is left of a cluster.
func (s *Server) awaitBackedUp(r *http.Request, q *request) error {
	f, err := q.freshness(r)
	if err != nil || f.eventual {
		return err
	}
	return s.awaitPresent(r, q, q.shards.All()...)
}

// restore refuses, because the state of a running node cannot be replaced.
func (s *Server) restore(http.ResponseWriter, *http.Request) error {
	return api.Errorf(api.Unsupported, "a running node cannot restore a backup, because that would undo acknowledged writes. Create a new node with `corvo admin restore --from FILE --data-dir DIR`, and start it in place of this one")
}

// backupStream writes a backup to a client, until ctx ends or the client takes longer than backupWrite to
// read one part.
type backupStream struct {
	ctx     context.Context
	to      io.Writer
	control *http.ResponseController
	bytes   uint64
}

func (x *backupStream) Write(b []byte) (int, error) {
	if err := x.ctx.Err(); err != nil {
		return 0, fmt.Errorf("the client has gone or the node is shutting down: %w", err)
	}
	// A writer without deadlines, such as a test's, writes without one.
	_ = x.control.SetWriteDeadline(time.Now().Add(backupWrite))
	n, err := x.to.Write(b)
	x.bytes += uint64(n)
	return n, err
}
