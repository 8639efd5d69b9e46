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

// The files in Config.DataDir. A file that cannot be used is renamed, with
// refusedSuffix behind its name.
const (
	CatalogueFile = "catalogue" // documents and the keys that sign them
	SessionFile   = "session"   // a fleet.Session; secret

	refusedSuffix = ".refused"
)

const (
	// SaveAfter is how long a document may wait for others, so that one sync writes
	// all of them.
	SaveAfter = 20 * time.Millisecond
	// SaveEvery is how often the time is written at which the control plane was last
	// heard, so that is by how much a restarted gateway may think its documents too old.
	SaveEvery = time.Minute
	// saveAgain is the wait after a write that failed.
	saveAgain = 10 * time.Second
	// HearFirst is for how long a gateway that has documents of an earlier run waits
	// for the control plane before it serves by them, because a second later it has
	// newer ones in nearly every case.
	HearFirst = time.Second
)

// kept is what a gateway has on disk: the documents and the session by which it serves
// after a restart while the control plane is away. Everything in it can be fetched
// again, so a file that cannot be used, or written, never stops a gateway that hears
// the control plane. note and state may be called by any goroutine, the other methods by
// that of run.
type kept struct {
	dir       string
	log       *slog.Logger
	lock      io.Closer
	catalogue *fleet.Catalogue
	session   fleet.Session // as it is on disk; zero = there is none
	refused   error         // why the files that were found are not served by
	notBefore time.Time     // a write has failed: the next comes no sooner
	news      chan struct{} // holds one: there is something to write
	fault     atomic.Pointer[error]
}

// openKept opens the directory or makes it, and returns its documents. One process
// has it open.
func openKept(dir, credential string, now time.Time, log *slog.Logger) (_ *kept, docs []fleet.Doc, err error) {
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("data directory: %w", err)
	}
	k := &kept{dir: dir, log: log, news: make(chan struct{}, 1)}
	if k.lock, err = durable.Lock(dir); err != nil {
		return nil, nil, fmt.Errorf("data directory %s: %w: each gateway has one of its own", dir, err)
	}
	if docs, k.refused = k.load(credential); k.refused != nil {
		log.Warn("the files of an earlier run are not used: nothing is served before the control plane is heard",
			"directory", dir, "error", k.refused)
		if err := k.reset(); err != nil {
			return nil, nil, errors.Join(err, k.lock.Close())
		}
		docs = nil
	}
	if k.session.LastHeartbeat.After(now) { // the clock has been set back
		k.session.LastHeartbeat = now
	}
	return k, docs, nil
}

// load reads both files; an error says why they cannot be used. With no file there
// is nothing to load.
func (k *kept) load(credential string) (docs []fleet.Doc, err error) {
	session, missing := fleet.ReadSession(k.path(SessionFile))
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
		return nil, missing
	}
	if k.catalogue, docs, err = fleet.OpenCatalogue(k.path(CatalogueFile)); err != nil {
		return nil, err
	}
	_, id, _ := keyring.Parse(credential)
	switch number := k.catalogue.Number(); {
	case missing != nil && number == 0:
		return nil, nil // founded, and nothing was heard yet
	case missing != nil:
		return nil, fmt.Errorf("there are documents and no session: %w", missing)
	case session.Credential != id:
		return nil, fmt.Errorf("the files are those of credential %s, and this gateway joins with %s: they may be of another fleet", session.Credential, id)
	case number < session.Number:
		return nil, fmt.Errorf("the newest document is %d, and %d has been seen: the catalogue is an old copy", number, session.Number)
	}
	k.session = session
	return docs, nil
}

// reset puts the files that were found aside and begins with an empty catalogue.
func (k *kept) reset() error {
	k.session = fleet.Session{}
	if k.catalogue != nil {
		if err := k.catalogue.Close(); err != nil {
			return err
		}
	}
	for _, name := range []string{CatalogueFile, SessionFile} {
		if err := os.Rename(k.path(name), k.path(name+refusedSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var err error
	k.catalogue, _, err = fleet.OpenCatalogue(k.path(CatalogueFile))
	return err
}

func (k *kept) path(name string) string { return filepath.Join(k.dir, name) }

// note takes a message of the stream; run writes it.
func (k *kept) note(m fleet.Message) error {
	defer k.wake()
	return k.catalogue.Buffer(m)
}

// wake has run look whether there is something to write.
func (k *kept) wake() {
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// run writes what was noted until ctx ends. Its own goroutine does
// so, because a slow disk must not hold up a revocation. session is nil before the
// control plane was heard.
func (k *kept) run(ctx context.Context, session func() *fleet.Session, now func() time.Time) {
	for {
		select {
		case <-k.news:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(SaveAfter):
		case <-ctx.Done():
			return
		}
		k.save(session(), now())
	}
}

// save makes durable what was noted, then the session: a session never names a
// document that the catalogue lacks. An error is logged and shown, and the write is
// tried again later: the gateway goes on without.
func (k *kept) save(s *fleet.Session, now time.Time) {
	if now.Before(k.notBefore) {
		return // a heartbeat wakes again
	}
	if err := k.write(s); err != nil {
		k.notBefore = now.Add(saveAgain)
		k.log.Error("the documents could not be written: a restart will know older ones until they are", "directory", k.dir, "error", err)
		k.fault.Store(&err)
		return
	}
	k.fault.Store(nil)
}

func (k *kept) write(s *fleet.Session) error {
	number, err := k.catalogue.Flush()
	if err != nil || s == nil {
		return err
	}
	s.Number = number
	if s.HostToken == k.session.HostToken && s.Number == k.session.Number && s.LastHeartbeat.Sub(k.session.LastHeartbeat) < SaveEvery {
		return nil
	}
	if err := s.Write(k.path(SessionFile)); err != nil {
		return err
	}
	k.session = *s
	return nil
}

// state is what /readyz shows; the error is in the log.
func (k *kept) state() string {
	if k.fault.Load() != nil {
		return "no: the last write failed"
	}
	return "yes"
}

func (k *kept) close() error { return errors.Join(k.catalogue.Close(), k.lock.Close()) }
