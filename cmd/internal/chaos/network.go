// Package chaos runs clusters of our real binaries on networks that can be cut,
// puts a load on them, makes things go wrong, and checks what clients were told.
// It is used by tests alone and speaks to the nodes as clients do, through
// api/client.
package chaos

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Network is one network namespace for each node, all on a bridge that this
// process is on as well. What is cut is cut between nodes only: clients still
// reach every one of them, so that they can ask a leader that has been deposed
// without knowing.
//
// A direction is cut by telling the sender a neighbour's address that nobody has:
// what it sends is lost without a word, as on a broken wire. A blackhole route was
// rejected, for it gives the sender errors at once.
type Network struct {
	bridge string
	nodes  []netnsNode
	closed bool
	mu     sync.Mutex
}

type netnsNode struct {
	name string // of the namespace
	addr netip.Addr
}

// nobody is a hardware address that no interface has.
const nobody = "02:00:00:00:00:fe"

// Available says why this machine cannot have a Network; nil = it can, and did for
// a moment.
func Available() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("network namespaces need the ip command (iproute2)")
	}
	w, err := build(fmt.Sprintf("%d available", os.Getpid()), 2)
	if err == nil {
		err = w.connected()
	}
	return errors.Join(err, w.close())
}

// connected says why the second node does not reach the first. A port that nobody
// listens on refuses at once where packets pass; a firewall between bridge ports,
// which some container hosts have, says nothing.
func (w *Network) connected() error {
	command, args := w.Inside(1, "timeout", "5", "bash", "-c", ": </dev/tcp/"+w.Addr(0)+"/9")
	out, err := exec.Command(command, args...).CombinedOutput()
	if !strings.Contains(string(out), "refused") {
		return fmt.Errorf("nodes on a bridge do not reach each other here: %s (%w)", out, err)
	}
	return nil
}

// NewNetwork makes a network of n nodes, which is gone at the end of the test.
func NewNetwork(t testing.TB, n int) *Network {
	t.Helper()
	w, err := build(fmt.Sprintf("%d %s", os.Getpid(), t.Name()), n)
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Log(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// build makes a network. Several may be there at once: names and addresses derive
// from what is different in each. After an error what there is must be closed.
func build(different string, n int) (*Network, error) {
	h := fnv.New32a()
	h.Write([]byte(different))
	id := h.Sum32()
	subnet := [4]byte{10, byte(64 + id%128), byte(id >> 8), 0}
	address := func(last byte) netip.Addr { subnet[3] = last; return netip.AddrFrom4(subnet) }

	w := &Network{bridge: fmt.Sprintf("cv%06x", id&0xffffff)}
	commands := [][]string{
		{"link", "add", w.bridge, "type", "bridge"},
		{"addr", "add", address(254).String() + "/24", "dev", w.bridge},
		{"link", "set", w.bridge, "up"},
	}
	for i := range n {
		node := netnsNode{name: fmt.Sprintf("%s-%d", w.bridge, i), addr: address(byte(i + 1))}
		w.nodes = append(w.nodes, node)
		outer := fmt.Sprintf("%sv%d", w.bridge, i)
		commands = append(commands, [][]string{
			{"netns", "add", node.name},
			{"link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", node.name},
			{"link", "set", outer, "master", w.bridge, "up"},
			{"-n", node.name, "link", "set", "lo", "up"},
			{"-n", node.name, "addr", "add", node.addr.String() + "/24", "dev", "eth0"},
			{"-n", node.name, "link", "set", "eth0", "up"},
		}...)
	}
	for _, c := range commands {
		if err := ip(c...); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *Network) run(t testing.TB, args ...string) {
	t.Helper()
	if err := ip(args...); err != nil {
		t.Fatal(err)
	}
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// close removes everything, as far as it was made.
func (w *Network) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	var errs []error
	for _, node := range w.nodes {
		errs = append(errs, ip("netns", "del", node.name))
	}
	return errors.Join(append(errs, ip("link", "del", w.bridge))...)
}

// Addr is a node's address.
func (w *Network) Addr(node int) string { return w.nodes[node].addr.String() }

// Inside is the command line that runs a command in a node's namespace.
func (w *Network) Inside(node int, command string, args ...string) (string, []string) {
	return "ip", append([]string{"netns", "exec", w.nodes[node].name, command}, args...)
}

// Cut loses everything that one node sends to another.
func (w *Network) Cut(t testing.TB, from, to int) {
	w.run(t, "-n", w.nodes[from].name, "neigh", "replace", w.Addr(to), "lladdr", nobody, "dev", "eth0", "nud", "permanent")
}

// Isolate cuts a node off from all other nodes, both ways.
func (w *Network) Isolate(t testing.TB, node int) {
	for other := range w.nodes {
		if other != node {
			w.Cut(t, node, other)
			w.Cut(t, other, node)
		}
	}
}

// Heal undoes all cuts and losses.
func (w *Network) Heal(t testing.TB) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	for from, node := range w.nodes {
		for to := range w.nodes {
			if from != to {
				// Not there when that direction was never cut.
				_ = ip("-n", node.name, "neigh", "del", w.Addr(to), "dev", "eth0")
			}
		}
		if lossy() == nil {
			w.run(t, "netns", "exec", node.name, "iptables", "-F")
		}
	}
}

// lossy says why packets cannot be lost at random here.
func lossy() error {
	_, err := exec.LookPath("iptables")
	return err
}

// Lose makes the nodes lose a share of the packets they send to each other, from
// 0 to 1. It reports whether this machine can.
func (w *Network) Lose(t testing.TB, share float64) bool {
	if lossy() != nil {
		return false
	}
	for from, node := range w.nodes {
		for to := range w.nodes {
			if from != to {
				w.run(t, "netns", "exec", node.name, "iptables", "-A", "OUTPUT", "-d", w.Addr(to),
					"-m", "statistic", "--mode", "random", "--probability", fmt.Sprint(share), "-j", "DROP")
			}
		}
	}
	return true
}
