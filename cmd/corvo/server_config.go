package main

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/cmd/internal/front"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/cmd/internal/settings"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog"
)

// serverConfig is the configuration of `corvo server`. Flags, environment variables and the keys of the
// configuration file derive from it.
type serverConfig struct {
	Config            string        `flag:"config" doc:"file with settings, one 'flag-name: value' a line (YAML)"`
	Bind              string        `flag:"bind" doc:"address to serve HTTP on (default \":8080\", with --dev \"127.0.0.1:8080\")"`
	Advertise         string        `flag:"advertise" doc:"URL at which clients reach this node, for the other nodes (default: the host of --raft-advertise with the port of --bind)"`
	DataDir           string        `flag:"data-dir" default:"data" doc:"directory for all data"`
	NodeID            string        `flag:"node-id" doc:"permanent name of this node in its cluster (default: the name in --data-dir; at the first start node-1, or the host name if the node joins others)"`
	Dev               bool          `flag:"dev" doc:"development mode: no keys, open to everybody on this machine; needs a loopback --bind"`
	RaftBind          string        `flag:"raft-bind" doc:"address for connections of other nodes, or off (default \":9400\", with --dev off)"`
	RaftAdvertise     string        `flag:"raft-advertise" doc:"name or address at which other nodes reach --raft-bind (default: its host, or the first address of this machine)"`
	Bootstrap         bool          `flag:"bootstrap" default:"true" doc:"found a cluster if --data-dir has none; if false, and without --join, --discover and --peers, wait for corvo cluster add"`
	Join              string        `flag:"join" doc:"addresses of members whose cluster to join, host:port,..."`
	Discover          string        `flag:"discover" doc:"discovery of the nodes to form or join a cluster with: dns, by --discover-dns-name"`
	DiscoverDNSName   string        `flag:"discover-dns-name" doc:"DNS name that resolves to the nodes (default: the domain of this host's full name)"`
	Peers             string        `flag:"peers" doc:"addresses of all nodes to form or join a cluster with, host:port,..."`
	Expect            int64         `flag:"expect" default:"3" doc:"number of nodes that form a new cluster, with --discover and --peers"`
	JoinTokenFile     string        `flag:"join-token-file" doc:"file with the secret that all nodes share; or CORVO_JOIN_TOKEN, or the file join-token in --data-dir, which the founder creates"`
	AdminPasswordFile string        `flag:"admin-password-file" doc:"not supported: Corvo has no passwords; the first start writes an admin's API key to admin.key in --data-dir"`
	Shards            int64         `flag:"shards" doc:"number of shards of a new cluster (default 1)"`
	Durability        string        `flag:"durability" default:"durable" doc:"durability of writes: durable (on disk before the acknowledgement) or relaxed (a machine crash may lose the newest writes)"`
	Durable           bool          `flag:"durable" doc:"short form of --durability durable"`
	RaftStore         string        `flag:"raft-store" default:"wal" doc:"log store: wal, pebble, bolt or badger"`
	Heartbeat         time.Duration `flag:"heartbeat" default:"500ms" doc:"silence of the leader after which a follower stands for election"`
	ElectionTimeout   time.Duration `flag:"election-timeout" default:"500ms" doc:"time a candidate waits for votes; not less than --heartbeat"`
	MaxPending        int64         `flag:"max-pending" default:"16384" doc:"limit on writes of a shard that wait for the log; further writes are answered 429 OVERLOADED"`
	MaxPendingBytes   int64         `flag:"max-pending-bytes" default:"67108864" doc:"limit on the bytes of writes of a shard that wait for the log"`
	MaxEntryOps       int64         `flag:"max-entry-ops" default:"1024" doc:"limit on writes in one log entry: higher for throughput, lower for latency"`
	MaxEntryBytes     int64         `flag:"max-entry-bytes" default:"1048576" doc:"size in bytes at which a log entry is full"`
	MaxPayloadSize    int64         `flag:"max-payload-size" default:"1048576" doc:"limit on the bytes of a payload"`
	Retention         time.Duration `flag:"retention" doc:"default retention of finished jobs in queues without a setting (default: the last value; at the first start 168h)"`
	SnapshotThreshold int64         `flag:"snapshot-threshold" default:"67108864" doc:"growth of the log in bytes after which a snapshot is taken and the log truncated"`
	SnapshotInterval  time.Duration `flag:"snapshot-interval" doc:"not supported: snapshots are taken by --snapshot-threshold"`
	ProposeTimeout    time.Duration `flag:"propose-timeout" default:"10s" doc:"longest wait for the commit of a write"`
	StreamRate        int64         `flag:"stream-rate" default:"500" doc:"limit on frames a second of one RPC stream; faster frames wait (no limit with --dev)"`
	StreamFrames      int64         `flag:"stream-frames" default:"2048" doc:"limit on frames of all RPC streams in progress; further frames wait"`
	MaxStreams        int64         `flag:"max-streams" default:"4096" doc:"limit on open RPC streams"`
	settings.Admission
	settings.View
	PrivateWebhooks bool          `flag:"webhook-allow-private" doc:"allow webhooks to call private, reserved and loopback addresses (always allowed with --dev)"`
	OTelEndpoint    string        `flag:"otel-endpoint" doc:"URL of an OTLP/HTTP receiver for traces, such as http://127.0.0.1:4318 (default none)"`
	LogLevel        string        `flag:"log-level" default:"info" doc:"lowest level of log lines: debug, info, warn or error"`
	ShutdownTimeout time.Duration `flag:"shutdown-timeout" default:"30s" doc:"time for requests in progress to finish at shutdown"`
}

const (
	defaultBind     = ":8080"
	defaultDevBind  = "127.0.0.1:8080"
	defaultRaftBind = ":9400"
	raftOff         = "off"

	durable = "durable"
	relaxed = "relaxed"

	discoverDNS = "dns"

	minSnapshotThreshold = 1 << 20
	maxExpect            = 99 // a larger group is a mistake
	maxStreamSetting     = 1_000_000

	// The bounds of the pipeline's flags. The smallest backlog in bytes still lets each class of writes hold
	// any op.
	minPending      = 64
	maxPending      = 1_000_000
	maxPendingBytes = 4 << 30
	minEntryBytes   = 64 << 10
)

// check reports all invalid settings at once. given reports whether a flag was set anywhere.
func (c *serverConfig) check(given func(flag string) bool) error {
	var f misuse.Faults
	f.Refuse(!c.Dev || front.Loopback(c.bind()), "--dev serves without keys and needs a loopback --bind such as %s, not %q", defaultDevBind, c.Bind)
	f.Refuse(c.Durability == durable || c.Durability == relaxed, "--durability is %q; it must be %s or %s", c.Durability, durable, relaxed)
	f.Refuse(slices.Contains(raftlog.Kinds(), c.RaftStore), "--raft-store is %q; it must be one of %s", c.RaftStore, strings.Join(raftlog.Kinds(), ", "))
	f.Refuse(c.MaxPayloadSize >= 1 && c.MaxPayloadSize <= job.MaxPayload, "--max-payload-size is %d; it must be between 1 and %d", c.MaxPayloadSize, job.MaxPayload)
	f.Refuse(c.Retention == 0 || c.Retention >= time.Millisecond && c.Retention <= job.MaxRetention, "--retention is %v; it must be between 1ms and %v", c.Retention, job.MaxRetention)
	f.Refuse(c.SnapshotThreshold >= minSnapshotThreshold, "--snapshot-threshold is %d; it must be at least %d", c.SnapshotThreshold, minSnapshotThreshold)
	f.Refuse(c.SnapshotInterval == 0, "UNSUPPORTED: --snapshot-interval: a node takes snapshots when its log has grown by --snapshot-threshold, never by time")
	f.Refuse(c.AdminPasswordFile == "", "UNSUPPORTED: --admin-password-file: a node has API keys and no passwords; its first start writes the admin's key to %s", filepath.Join(c.DataDir, dataplane.AdminKeyFile))
	f.Refuse(c.Heartbeat >= engine.MinHeartbeat, "--heartbeat is %v; it must be at least %v", c.Heartbeat, engine.MinHeartbeat)
	f.Refuse(c.ElectionTimeout >= c.Heartbeat, "--election-timeout is %v; it must not be less than --heartbeat, %v", c.ElectionTimeout, c.Heartbeat)
	f.Refuse(c.ProposeTimeout > 0, "--propose-timeout is %v; it must be positive", c.ProposeTimeout)
	f.Refuse(c.ShutdownTimeout > 0, "--shutdown-timeout is %v; it must be positive", c.ShutdownTimeout)
	f.Refuse(c.Durable || !given("durable"), "--durable=false is not supported: give --durability %s", relaxed)
	f.Refuse(!c.Durable || c.Durability != relaxed, "--durable and --durability %s contradict each other: give one of them", relaxed)
	for _, b := range []struct {
		flag        string
		n           int64
		least, most int64
	}{
		{"--max-pending", c.MaxPending, minPending, maxPending},
		{"--max-pending-bytes", c.MaxPendingBytes, 2 * pipeline.MaxOpBytes, maxPendingBytes},
		{"--max-entry-ops", c.MaxEntryOps, 1, pipeline.MostEntryOps},
		{"--max-entry-bytes", c.MaxEntryBytes, minEntryBytes, pipeline.MostEntryBytes},
	} {
		f.Refuse(b.n >= b.least && b.n <= b.most, "%s is %d; it must be between %d and %d", b.flag, b.n, b.least, b.most)
	}
	for flag, n := range map[string]int64{"--stream-rate": c.StreamRate, "--stream-frames": c.StreamFrames, "--max-streams": c.MaxStreams} {
		f.Refuse(n >= 1 && n <= maxStreamSetting, "%s is %d; it must be between 1 and %d", flag, n, maxStreamSetting)
	}
	f.Refuse(c.DataDir != "", "--data-dir is empty")
	f.Refuse(settings.IsAddress(c.bind()), "--bind is %q; it must be host:port or :port, such as %s", c.Bind, defaultBind)
	f.Refuse(c.raftBind() == "" || settings.IsAddress(c.raftBind()), "--raft-bind is %q; it must be host:port, :port or %s", c.RaftBind, raftOff)
	c.Admission.Check(f.Refuse)
	c.View.Check(f.Refuse)
	f.Refuse(c.Advertise == "" || settings.IsURL(c.Advertise), "--advertise is %q; it must be a URL such as http://corvo-0.example.com:8080", c.Advertise)
	f.Refuse(c.Shards >= 1 && c.Shards <= cluster.MaxShards || !given("shards"), "--shards is %d; it must be between 1 and %d", c.Shards, cluster.MaxShards)
	c.checkCluster(&f)
	if _, err := settings.Logger(c.LogLevel); err != nil {
		f = append(f, err)
	}
	return f.Err()
}

func (c *serverConfig) checkCluster(f *misuse.Faults) {
	ways := 0
	for _, way := range []bool{c.Join != "", c.Discover != "", c.Peers != ""} {
		if way {
			ways++
		}
	}
	f.Refuse(ways <= 1, "--join, --discover and --peers exclude each other: give one of them")
	f.Refuse(ways == 0 || c.raftBind() != "", "--join, --discover and --peers need a --raft-bind that is not off")
	f.Refuse(c.Bootstrap || c.raftBind() != "", "--bootstrap=false needs a --raft-bind that is not off, because another node adds this one")
	f.Refuse(c.Discover == "" || c.Discover == discoverDNS, "--discover is %q; it must be %s", c.Discover, discoverDNS)
	f.Refuse(c.Expect >= 1 && c.Expect <= maxExpect, "--expect is %d; it must be between 1 and %d", c.Expect, maxExpect)
	for flag, text := range map[string]string{"--join": c.Join, "--peers": c.Peers} {
		for _, address := range settings.List(text) {
			f.Refuse(settings.IsPeer(address), "%s has %q; it must be host:port, such as corvo-0.example.com%s", flag, address, defaultRaftBind)
		}
	}
	_, _, err := net.SplitHostPort(c.RaftAdvertise)
	f.Refuse(err != nil || settings.IsPeer(c.RaftAdvertise), "--raft-advertise is %q; it must be a name or an address, with a port or without, such as corvo-0.example.com", c.RaftAdvertise)
	f.Refuse(len(c.NodeID) <= engine.MaxGroupName, "--node-id has %d bytes; it must have at most %d", len(c.NodeID), engine.MaxGroupName)
}

func (c *serverConfig) bind() string {
	switch {
	case c.Bind != "":
		return c.Bind
	case c.Dev:
		return defaultDevBind
	}
	return defaultBind
}

// raftBind returns the address for other nodes' connections; "" = none.
func (c *serverConfig) raftBind() string {
	switch {
	case c.RaftBind == raftOff, c.RaftBind == "" && c.Dev:
		return ""
	case c.RaftBind != "":
		return c.RaftBind
	}
	return defaultRaftBind
}

// foundsAlone reports whether a node without a cluster founds one of its own.
func (c *serverConfig) foundsAlone() bool {
	return c.Bootstrap && c.Join == "" && c.Discover == "" && c.Peers == ""
}
