package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy/keyring"
)

// The files in Config.DataDir. If one of them cannot be used, the gateway renames both: it appends
// refusedSuffix to their names.
const (
	CatalogueFile = "catalogue" // documents and the keys that sign them
	SessionFile   = "session"   // a fleet.Session; secret

	refusedSuffix = ".refused"
)

const (
	// SaveAfter is the time that a document waits for others, so that one sync writes all of them.
	SaveAfter = 20 * time.Millisecond
	// SaveEvery is the least time between two writes of a session if only the last heartbeat has changed. A
	// restarted gateway may overestimate the age of its documents by as much.
	SaveEvery = time.Minute
	// saveAgain is the wait after a failed write.
	saveAgain = 10 * time.Second
	// HearFirst is the time that a gateway with documents of an earlier run waits for the control plane
	// before it uses those documents, because within a second it nearly always gets newer ones.
	HearFirst = time.Second
)

// documentCache stores the documents and the session on disk. A restarted gateway serves by them while the
// control plane is down. A gateway that follows the control plane can fetch them again, so it continues
// without usable files and after a failed write. New fails only if the directory cannot be opened, locked or
// reset. Any goroutine may call buffer, wake and state. Only the goroutine of run may call the other methods,
// until run has returned.
type documentCache struct {
	dir       string
	log       *slog.Logger
	lock      io.Closer
	catalogue *fleet.Catalogue
	session   fleet.Session // as on disk; zero = none
	refused   error         // why the files on disk are not used
	notBefore time.Time     // after a failed write, the time of the next one
	news      chan struct{} // holds one: there is something to write
	fault     atomic.Pointer[error]
}

// openDocumentCache opens or creates the directory and returns its documents. Only one process may open it.
func openDocumentCache(dir, credential string, now time.Time, log *slog.Logger) (_ *documentCache, docs []fleet.Doc, err error) {
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("data directory: %w", err)
	}
	c := &documentCache{dir: dir, log: log, news: make(chan struct{}, 1)}
	if c.lock, err = durable.Lock(dir); err != nil {
		return nil, nil, fmt.Errorf("data directory %s: %w: each gateway has one of its own", dir, err)
	}
	if docs, c.refused = c.load(credential); c.refused != nil {
		log.Warn("the gateway cannot use the documents of an earlier run: it serves nothing until the control plane answers",
			"directory", dir, "error", c.refused)
		if err := c.reset(); err != nil {
			return nil, nil, errors.Join(err, c.lock.Close())
		}
		docs = nil
	}
	if c.session.LastHeartbeat.After(now) { // the clock was set back
		c.session.LastHeartbeat = now
	}
	return c, docs, nil
}

// load reads both files. The error says why they cannot be used. A new directory without documents and
// session is no error. It is an error if there are documents without a session, or if the session is newer
// than the documents or of another credential.
func (c *documentCache) load(credential string) (docs []fleet.Doc, err error) {
	session, missing := fleet.ReadSession(c.path(SessionFile))
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
		return nil, missing
	}
	if c.catalogue, docs, err = fleet.OpenCatalogue(c.path(CatalogueFile)); err != nil {
		return nil, err
	}
	_, id, _ := keyring.Parse(credential)
	switch number := c.catalogue.Number(); {
	case missing != nil && number == 0:
		return nil, nil // created, but without a document and a session so far
	case missing != nil:
		return nil, fmt.Errorf("there are documents and no session: %w", missing)
	case session.Credential != id:
		return nil, fmt.Errorf("the files are those of credential %s, and this gateway joins with %s: they may be of another fleet", session.Credential, id)
	case number < session.Number:
		return nil, fmt.Errorf("the newest document is %d, and %d has been seen: the catalogue is an old copy", number, session.Number)
	}
	c.session = session
	return docs, nil
}

// reset renames the files and starts with an empty catalogue and no session.
func (c *documentCache) reset() error {
	c.session = fleet.Session{}
	if c.catalogue != nil {
		if err := c.catalogue.Close(); err != nil {
			return err
		}
	}
	for _, name := range []string{CatalogueFile, SessionFile} {
		if err := os.Rename(c.path(name), c.path(name+refusedSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var err error
	c.catalogue, _, err = fleet.OpenCatalogue(c.path(CatalogueFile))
	return err
}

func (c *documentCache) path(name string) string { return filepath.Join(c.dir, name) }

// buffer adds messages of the stream to those that run writes next.
func (c *documentCache) buffer(messages ...fleet.Message) error {
	defer c.wake()
	for _, m := range messages {
		if err := c.catalogue.Buffer(m); err != nil {
			return err
		}
	}
	return nil
}

// wake makes run check whether there is something to write.
func (c *documentCache) wake() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// run writes the buffered messages and the session until ctx ends, in a goroutine of its own, because a slow
// disk must not delay a revocation. session returns nil before the first heartbeat.
func (c *documentCache) run(ctx context.Context, session func() *fleet.Session, now func() time.Time) {
	for {
		select {
		case <-c.news:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(SaveAfter):
		case <-ctx.Done():
			return
		}
		c.save(session(), now())
	}
}

// save writes the buffered messages and then the session, so that a session never refers to a document that
// the catalogue lacks. It logs an error and shows it in /readyz. The gateway continues, and a later save
// tries the write again.
func (c *documentCache) save(s *fleet.Session, now time.Time) {
	if now.Before(c.notBefore) {
		return // the next heartbeat wakes run again
	}
	if err := c.write(s); err != nil {
		c.notBefore = now.Add(saveAgain)
		c.log.Error("the gateway cannot write its documents: after a restart it would use older ones", "directory", c.dir, "error", err)
		c.fault.Store(&err)
		return
	}
	c.fault.Store(nil)
}

func (c *documentCache) write(s *fleet.Session) error {
	number, err := c.catalogue.Flush()
	if err != nil || s == nil {
		return err
	}
	s.Number = number
	if s.HostToken == c.session.HostToken && s.Number == c.session.Number && s.LastHeartbeat.Sub(c.session.LastHeartbeat) < SaveEvery {
		return nil
	}
	if err := s.Write(c.path(SessionFile)); err != nil {
		return err
	}
	c.session = *s
	return nil
}

// state returns the text for /readyz. The error is in the log.
func (c *documentCache) state() string {
	if c.fault.Load() != nil {
		return "no: the last write failed"
	}
	return "yes"
}

func (c *documentCache) close() error { return errors.Join(c.catalogue.Close(), c.lock.Close()) }
