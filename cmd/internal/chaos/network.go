// Package chaos runs clusters of our real binaries under load, injects faults, and
// checks the answers that clients received. Only tests use it. It speaks to the nodes as
// clients do, through api/client.
//
// A Cluster runs bare nodes on a Network that can be cut, and a Fleet the processes of a cloud. A Load is a set of clients that
// enqueue, fetch, ack and read; it records every request and answer in a History. Inflict
// applies Faults one after the other. Load.Finish checks that the History is linearizable
// and that no job was delivered to two workers.
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

// Network is one network namespace for each node, all on a bridge with this process. Cuts
// affect only traffic between nodes. Clients still reach every node, so that they can ask
// a leader that has been deposed without knowing it.
//
// Cut gives the sender a hardware address that no interface has, so that packets are lost
// silently, as on a broken wire. A blackhole route was rejected, because it returns errors
// to the sender at once.
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

// Available returns an error if this machine cannot have a Network. To find out, it
// builds one for a moment.
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

// connected returns an error if the second node does not reach the first. If packets pass,
// a port without a listener refuses at once; a firewall between bridge ports, which some
// container hosts have, drops the packets.
func (w *Network) connected() error {
	command, args := w.Inside(1, "timeout", "5", "bash", "-c", ": </dev/tcp/"+w.Addr(0)+"/9")
	out, err := exec.Command(command, args...).CombinedOutput()
	if !strings.Contains(string(out), "refused") {
		return fmt.Errorf("nodes on a bridge do not reach each other here: %s (%w)", out, err)
	}
	return nil
}

// NewNetwork creates a network of n nodes and removes it at the end of the test.
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

// build creates a network. Names and addresses derive from different, so that several
// networks can exist at once. The caller closes the network even after an error.
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

// close removes every part of the network that was created.
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

// Addr returns a node's address.
func (w *Network) Addr(node int) string { return w.nodes[node].addr.String() }

// Inside returns the command line that runs a command in a node's network namespace.
func (w *Network) Inside(node int, command string, args ...string) (string, []string) {
	return "ip", append([]string{"netns", "exec", w.nodes[node].name, command}, args...)
}

// Cut drops everything that one node sends to another.
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
				// This fails if the direction was never cut.
				_ = ip("-n", node.name, "neigh", "del", w.Addr(to), "dev", "eth0")
			}
		}
		if lossy() == nil {
			w.run(t, "netns", "exec", node.name, "iptables", "-F")
		}
	}
}

// lossy returns an error if this machine cannot drop packets at random.
func lossy() error {
	_, err := exec.LookPath("iptables")
	return err
}

// Lose makes the nodes drop a share, from 0 to 1, of the packets that they send to each
// other. It reports whether this machine can.
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
