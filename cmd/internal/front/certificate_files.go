package front

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
)

// Certificate is the certificate of a front, in files that an operator or a program of the operator replaces.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	tried   [2]fs.FileInfo // of the files at the last attempt to load them
}

// OpenCertificate loads a certificate with its chain, and its key, from PEM files.
func OpenCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	files, err := c.stat()
	if err != nil {
		return nil, err
	}
	c.tried = files
	if c.current, err = c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config returns the TLS configuration of a front.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12, // tenants' clients may be old
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}
}

// get returns the certificate, which it loads again if a file has changed. It checks both files at every
// handshake, because two system calls cost little beside a signature. If the new files cannot be used, it
// logs the error, keeps the old certificate and tries again at the next change of a file, because the two
// files are not replaced at the same moment.
func (c *Certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	files, err := c.stat()
	if err == nil && same(files[0], c.tried[0]) && same(files[1], c.tried[1]) {
		return c.current
	}
	logged := c.tried[0] == nil && files[0] == nil // a file is still missing
	c.tried = files
	var loaded *tls.Certificate
	if err == nil {
		loaded, err = c.load()
	}
	switch {
	case err == nil:
		c.current = loaded
		c.log.Info("the certificate has changed and is in use", "file", c.certFile, "valid_until", loaded.Leaf.NotAfter)
	case !logged:
		c.log.Error("the changed certificate cannot be used; the old one stays in use", "error", err)
	}
	return c.current
}

// stat returns the present state of both files, or of neither if one is missing.
func (c *Certificate) stat() (files [2]fs.FileInfo, err error) {
	cert, err := os.Stat(c.certFile)
	if err != nil {
		return files, fmt.Errorf("certificate: %w", err)
	}
	key, err := os.Stat(c.keyFile)
	if err != nil {
		return files, fmt.Errorf("key of the certificate: %w", err)
	}
	return [2]fs.FileInfo{cert, key}, nil
}

func (c *Certificate) load() (*tls.Certificate, error) {
	loaded, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	return &loaded, nil
}

// same reports whether a file was neither replaced nor changed since before.
func same(now, before fs.FileInfo) bool {
	return before != nil && os.SameFile(now, before) && now.ModTime().Equal(before.ModTime()) && now.Size() == before.Size()
}
