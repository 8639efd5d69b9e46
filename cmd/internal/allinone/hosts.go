package allinone

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/tenancy/keyring"
)

// MaxHosts is the limit on the hosts of a cloud on one machine.
const MaxHosts = 9

// hostGrace is the time of a host's process to close its namespaces, after the requests under way.
const hostGrace = 10 * time.Second

// hostName returns the name of a host's directory and of its credential; n counts from 1. The first host is the only one
// of a cloud with one host, so that a cloud may get more hosts later.
func hostName(n int) string {
	if n == 1 {
		return "host"
	}
	return fmt.Sprintf("host-%d", n)
}

// CheckHosts refuses to start a cloud without a host that has data in its directory, because the host's namespaces would
// be away, and separate hosts that could open too few files.
func CheckHosts(dataDir string, hosts int) error {
	if hosts > 1 {
		if err := front.RequireFiles("each host"); err != nil {
			return err
		}
	}
	for n := MaxHosts; n > hosts; n-- {
		dir := filepath.Join(dataDir, hostName(n))
		if _, err := os.Stat(filepath.Join(dir, host.StoreFile)); err == nil {
			return fmt.Errorf("--hosts is %d, and %s has the data of a further host: give --hosts %d; or drain and remove that host with corvo cloud hosts, and then delete the directory", hosts, dir, n)
		}
	}
	return nil
}

// openHosts starts the process of each host, and returns once all of them listen.
func (c *Cloud) openHosts(ctx context.Context, control, root string) error {
	var started []*hostProcess
	for n := 1; n <= c.cfg.Hosts; n++ {
		h, err := c.newHostProcess(hostName(n), control, root)
		if err != nil {
			return err
		}
		if err := h.awaitOrphan(ctx); err != nil {
			return err
		}
		if h.log, err = c.cfg.HostLog(h.name); err != nil {
			return err
		}
		c.run(h.name, h.run)
		started = append(started, h)
	}
	for _, h := range started {
		select {
		case err := <-h.opened:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		c.listens(h.name, h.url)
	}
	return nil
}

// SeparateHosts returns the names of the hosts that are processes of their own.
func (c *Cloud) SeparateHosts() (names []string) {
	for n := 1; c.separate() && n <= c.cfg.Hosts; n++ {
		names = append(names, hostName(n))
	}
	return names
}

func (c *Cloud) newHostProcess(name, control, root string) (*hostProcess, error) {
	if _, err := c.secret(name, keyring.Host); err != nil {
		return nil, err
	}
	dir := filepath.Join(c.cfg.DataDir, name)
	if err := durable.MakeDir(dir, 0o700); err != nil {
		return nil, err
	}
	return &hostProcess{
		name: name, dir: dir, command: c.cfg.HostCommand, grace: c.cfg.ShutdownTimeout + hostGrace, logger: c.cfg.Logger, opened: make(chan error, 1),
		flags: []string{
			"--data-dir", dir, "--control-plane", control, "--fleet-root", root,
			"--credential-file", filepath.Join(c.cfg.DataDir, secretsDir, name),
			"--max-disk-percent", strconv.Itoa(maxDiskPercent), "--shutdown-timeout", c.cfg.ShutdownTimeout.String(),
			"--max-feed-bytes", strconv.FormatUint(c.cfg.FeedBytes, 10), "--view-lag-limit", c.cfg.ViewLagLimit.String(),
			"--stop-with-stdin",
		},
	}, nil
}
