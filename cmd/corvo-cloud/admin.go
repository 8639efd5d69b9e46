package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/misuse"
)

// operating holds the flags with which an operator's command reaches the control plane.
type operating struct {
	ControlPlane    string `flag:"control-plane" default:"https://127.0.0.1:8081" doc:"URL of the control plane or of a gateway"`
	OperatorKeyFile string `flag:"operator-key-file" default:"data/operator.key" doc:"file with an operator's key, which the control plane writes at its first start"`
	Config          string `flag:"config" doc:"file with settings, one 'flag-name: value' a line (YAML)"`
}

func (o *operating) check(f *misuse.Faults) {
	checkURL(f, "--control-plane", o.ControlPlane, "the URL of the control plane", "https://cloud.example.com")
	f.Refuse(o.OperatorKeyFile != "", "--operator-key-file is empty")
}

// open makes a client of the control plane with the operator's key.
func (o *operating) open() (*client.Cloud, error) {
	content, err := os.ReadFile(o.OperatorKeyFile)
	if err != nil {
		return nil, misuse.Errorf("--operator-key-file: %w; it names the file with an operator's key, such as operator.key in the data directory of corvo-cloud server", err)
	}
	trusting, err := o.trusting()
	if err != nil {
		return nil, err
	}
	return client.NewCloud(o.ControlPlane, strings.TrimSpace(string(content)), client.WithHTTPClient(trusting))
}

// trusting returns an HTTP client that trusts the roots of the system. If the file of the fleet's roots lies
// beside the operator's key, where the control plane writes both, the client trusts the fleet's roots too.
func (o *operating) trusting() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	path := filepath.Join(filepath.Dir(o.OperatorKeyFile), rootFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &http.Client{Transport: transport}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the fleet's root: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the roots of the system: %w", err)
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the fleet's root: %s has no certificate in PEM: copy it from the data directory of the control plane, or remove it", path)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: transport}, nil
}

// newAdmin makes the commands for operators of a cloud.
func newAdmin() *cobra.Command {
	admin := misuse.Group(&cobra.Command{Use: "admin", Short: "Maintain the cloud (operators only)"})
	audit := misuse.Group(&cobra.Command{Use: "audit", Short: "List and verify the control plane's audit log"})
	audit.AddCommand(newAuditList(), newAuditVerify())
	admin.AddCommand(audit, newLedger(), newStripe())
	return admin
}

// listing selects the rows of the audit log to print.
type listing struct {
	operating
	Org string `flag:"org" doc:"id or name of the organisation; - for rows without an organisation (default: all rows)"`
}

func newAuditList() *cobra.Command {
	var cfg listing
	return command("list", "Print the control plane's audit log as JSON lines", &cfg, &cfg.Config, func(ctx context.Context, cmd *cobra.Command) error {
		c, err := cfg.open()
		if err != nil {
			return err
		}
		defer c.Close()
		rows, err := c.OperatorAudit(ctx, cfg.Org)
		if err != nil {
			return err
		}
		lines := json.NewEncoder(cmd.OutOrStdout())
		lines.SetEscapeHTML(false)
		for _, row := range rows {
			if err := lines.Encode(row); err != nil {
				return err
			}
		}
		return nil
	})
}

func newAuditVerify() *cobra.Command {
	var cfg operating
	cmd := command("verify", "Verify the hash chain of the control plane's audit log", &cfg, &cfg.Config, func(ctx context.Context, cmd *cobra.Command) error {
		c, err := cfg.open()
		if err != nil {
			return err
		}
		defer c.Close()
		check, err := c.VerifyAudit(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "verified up to row %d; the last hash of changes is %s, of refused requests %s\n", check.Verified, check.Hash, check.RefusedHash)
		return err
	})
	return cmd
}
