package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy/keyring"
	"github.com/corvo/corvo/tenancy/token"
)

// MaxAge is the time for which a gateway serves by its documents without a heartbeat of the control plane.
// After it, the gateway refuses every request of the data plane. A host that is cut off accepts a gateway's
// last token for as long after the token's expiry.
const MaxAge = token.Outage

// sessionFormat is the version of the file.
const sessionFormat = 1

// Session is the state that a gateway stores beside its catalogue, so that it can serve after a restart
// while the control plane is down. Its file contains a secret.
type Session struct {
	Credential    string    `json:"credential"` // id of the credential that joined
	ID            string    `json:"id"`         // of the member
	HostToken     string    `json:"host_token"`
	Ends          time.Time `json:"ends"`   // hosts refuse the host token from this time on
	LastHeartbeat time.Time `json:"heard"`  // see Member.LastHeartbeat
	Number        int64     `json:"number"` // the catalogue has every document up to it
}

// sessionFile is the JSON form of a Session.
type sessionFile struct {
	Format int `json:"format"`
	Session
}

// ReadSession reads a file written by Write. If there is none, the error is fs.ErrNotExist.
func ReadSession(path string) (Session, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Session{}, err
	}
	var f sessionFile
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&f); err != nil {
		return Session{}, fmt.Errorf("session %s is damaged: %w", path, err)
	}
	switch {
	case f.Format != sessionFormat:
		return Session{}, fmt.Errorf("session %s has format %d: this version reads %d", path, f.Format, sessionFormat)
	case f.ID == "" || f.HostToken == "" || f.Credential == "" || f.LastHeartbeat.IsZero():
		return Session{}, errors.New("session " + path + " is damaged: it lacks a field")
	}
	return f.Session, nil
}

// Write replaces the file durably. Only the owner may read the file.
func (s Session) Write(path string) error {
	text, err := json.Marshal(sessionFile{sessionFormat, s})
	if err != nil {
		return fmt.Errorf("encode the session: %w", err)
	}
	return durable.WriteFile(path, append(text, '\n'), 0o600)
}

// Session returns the present state of the member, without Number, which the owner of the catalogue sets.
func (m *Member) Session() Session {
	s := m.session.Load()
	_, credential, _ := keyring.Parse(m.config.Credential)
	return Session{Credential: credential, ID: s.id, HostToken: s.hostToken, Ends: s.ends, LastHeartbeat: m.LastHeartbeat()}
}
