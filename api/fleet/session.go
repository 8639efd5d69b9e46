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

// MaxAge is for how long documents serve that the control plane has not confirmed: a
// gateway that has not heard from it for longer refuses every request. It is as long
// as hosts that are cut off take a gateway's last token.
const MaxAge = token.Outage

// sessionFormat is the version of the file.
const sessionFormat = 1

// Session is what a gateway keeps beside its catalogue, so that it serves again after
// a restart while the control plane is away. Its file holds a secret.
type Session struct {
	Credential string    `json:"credential"` // id of the credential that joined
	ID         string    `json:"id"`         // of the member
	HostToken  string    `json:"host_token"`
	Ends       time.Time `json:"ends"`   // of the host token, at hosts too
	Heard      time.Time `json:"heard"`  // see Member.Heard
	Number     int64     `json:"number"` // the catalogue has every document up to here
}

// sessionFile is a Session as it lies on disk.
type sessionFile struct {
	Format int `json:"format"`
	Session
}

// ReadSession reads a file that Write has written.
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
	case f.ID == "" || f.HostToken == "" || f.Credential == "" || f.Heard.IsZero():
		return Session{}, errors.New("session " + path + " is damaged: it lacks a field")
	}
	return f.Session, nil
}

// Write replaces the file, durably.
func (s Session) Write(path string) error {
	text, err := json.Marshal(sessionFile{sessionFormat, s})
	if err != nil {
		return fmt.Errorf("encode the session: %w", err)
	}
	return durable.WriteFile(path, append(text, '\n'), 0o600)
}

// Session is what the member must keep to serve again while the control plane is away.
func (m *Member) Session() Session {
	s := m.session.Load()
	_, credential, _ := keyring.Parse(m.config.Credential)
	return Session{Credential: credential, ID: s.id, HostToken: s.hostToken, Ends: s.ends, Heard: m.Heard()}
}
