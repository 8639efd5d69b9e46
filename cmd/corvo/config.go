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
	"github.com/corvo/corvo/dataplane/cluster"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog"
)

// serverConfig is everything `corvo server` can be told. Flags, environment
// variables and the keys of the configuration file are derived from it.
type serverConfig struct {
	Config            string        `flag:"config" doc:"file with settings, one 'flag-name: value' a line (YAML)"`
	Bind              string        `flag:"bind" doc:"address to serve HTTP on (default \":8080\", with --dev \"127.0.0.1:8080\")"`
	Advertise         string        `flag:"advertise" doc:"URL at which clients reach this node, told to the other nodes (default: the host of --raft-advertise with the port of --bind)"`
	DataDir           string        `flag:"data-dir" default:"data" doc:"directory for all data"`
	NodeID            string        `flag:"node-id" doc:"this node's name in its cluster, which it keeps (default: the one in --data-dir; at first node-1, or the host's name where it joins others)"`
	Dev               bool          `flag:"dev" doc:"open to everybody on this machine, without keys; needs a loopback --bind"`
	RaftBind          string        `flag:"raft-bind" doc:"address to take other nodes' connections on, or off (default \":9400\", with --dev off)"`
	RaftAdvertise     string        `flag:"raft-advertise" doc:"name or address at which other nodes reach --raft-bind (default: its own, or the first of this machine)"`
	Bootstrap         bool          `flag:"bootstrap" default:"true" doc:"found a cluster where there is none in --data-dir; if false and nothing else is said, wait to be invited"`
	Join              string        `flag:"join" doc:"addresses of members, host:port,...: join their cluster"`
	Discover          string        `flag:"discover" doc:"dns: form a cluster with, or join, the nodes found under --discover-dns-name"`
	DiscoverDNSName   string        `flag:"discover-dns-name" doc:"name whose addresses are the nodes (default: the domain of this host's full name)"`
	Peers             string        `flag:"peers" doc:"addresses of all nodes, host:port,...: form a cluster with them, or join it"`
	Expect            int64         `flag:"expect" default:"3" doc:"how many nodes form a new cluster, with --discover and --peers"`
	JoinTokenFile     string        `flag:"join-token-file" doc:"file with the secret all nodes share; or CORVO_JOIN_TOKEN, or join-token in --data-dir, where the founder makes one"`
	AdminPasswordFile string        `flag:"admin-password-file" doc:"not supported: there are no passwords; the first start writes an admin's API key to admin.key in --data-dir"`
	Shards            int64         `flag:"shards" doc:"shards a new cluster has (default 1)"`
	Durability        string        `flag:"durability" default:"durable" doc:"durable: a write is on disk before it is acknowledged; relaxed: a crash of the machine may lose the newest ones"`
	Durable           bool          `flag:"durable" doc:"another name of --durability durable"`
	RaftStore         string        `flag:"raft-store" default:"wal" doc:"log store: wal, pebble, bolt or badger"`
	Heartbeat         time.Duration `flag:"heartbeat" default:"500ms" doc:"how long a follower hears nothing of its leader before it stands for election"`
	ElectionTimeout   time.Duration `flag:"election-timeout" default:"500ms" doc:"how long a candidate waits for votes; not less than --heartbeat"`
	MaxPending        int64         `flag:"max-pending" default:"16384" doc:"writes of a shard that may wait for the log; more are answered 429 OVERLOADED"`
	MaxPendingBytes   int64         `flag:"max-pending-bytes" default:"67108864" doc:"bytes of writes of a shard that may wait for the log"`
	MaxEntryOps       int64         `flag:"max-entry-ops" default:"1024" doc:"writes that go into the log together: more for throughput, fewer for latency"`
	MaxEntryBytes     int64         `flag:"max-entry-bytes" default:"1048576" doc:"bytes at which an entry of the log is full"`
	MaxPayloadSize    int64         `flag:"max-payload-size" default:"1048576" doc:"most bytes of a job's payload"`
	Retention         time.Duration `flag:"retention" doc:"how long jobs are kept that have ended, where their queues say nothing (default: as it was set last; at first 168h)"`
	SnapshotThreshold int64         `flag:"snapshot-threshold" default:"67108864" doc:"bytes of log after which a snapshot is taken and the log cut"`
	SnapshotInterval  time.Duration `flag:"snapshot-interval" doc:"not supported: snapshots are taken by --snapshot-threshold"`
	ProposeTimeout    time.Duration `flag:"propose-timeout" default:"10s" doc:"longest wait for a write to be committed"`
	StreamRate        int64         `flag:"stream-rate" default:"500" doc:"frames a second of one stream of the RPC; what comes faster waits; with --dev there is no rate"`
	StreamFrames      int64         `flag:"stream-frames" default:"2048" doc:"frames of all streams that are in hand at once; others wait"`
	MaxStreams        int64         `flag:"max-streams" default:"4096" doc:"streams of the RPC that may be open at once"`
	settings.Admission
	settings.View
	PrivateWebhooks bool          `flag:"webhook-allow-private" doc:"let webhooks call private and reserved addresses and those of this machine; with --dev they may"`
	OTelEndpoint    string        `flag:"otel-endpoint" doc:"OTLP/HTTP receiver for traces, such as http://127.0.0.1:4318; none by default"`
	LogLevel        string        `flag:"log-level" default:"info" doc:"debug, info, warn or error"`
	ShutdownTimeout time.Duration `flag:"shutdown-timeout" default:"30s" doc:"how long requests under way may take to finish at shutdown"`
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
	maxExpect            = 99 // a group of more members is a mistake
	maxStreamSetting     = 1_000_000

	// The bounds of the pipeline's flags. The least backlog in bytes is that with which
	// each class of writes can hold any op.
	minPending      = 64
	maxPending      = 1_000_000
	maxPendingBytes = 4 << 30
	maxEntryOps     = 65_536
	minEntryBytes   = 64 << 10
	maxEntryBytes   = 4 << 20
)

// check refuses settings that cannot be, all at once. given says of a flag whether it was
// set anywhere.
func (c *serverConfig) check(given func(flag string) bool) error {
	var f misuse.Faults
	f.Refuse(!c.Dev || front.Loopback(c.bind()), "--dev is open without keys and so needs a loopback --bind such as %s, not %q", defaultDevBind, c.Bind)
	f.Refuse(c.Durability == durable || c.Durability == relaxed, "--durability is %q; it must be %s or %s", c.Durability, durable, relaxed)
	f.Refuse(slices.Contains(raftlog.Kinds(), c.RaftStore), "--raft-store is %q; it must be one of %s", c.RaftStore, strings.Join(raftlog.Kinds(), ", "))
	f.Refuse(c.MaxPayloadSize >= 1 && c.MaxPayloadSize <= job.MaxPayloadFlag, "--max-payload-size is %d; it must be between 1 and %d", c.MaxPayloadSize, job.MaxPayloadFlag)
	f.Refuse(c.Retention == 0 || c.Retention >= time.Millisecond && c.Retention <= job.MaxRetention, "--retention is %v; it must be between 1ms and %v", c.Retention, job.MaxRetention)
	f.Refuse(c.SnapshotThreshold >= minSnapshotThreshold, "--snapshot-threshold is %d; it must be at least %d", c.SnapshotThreshold, minSnapshotThreshold)
	f.Refuse(c.SnapshotInterval == 0, "UNSUPPORTED: --snapshot-interval: snapshots are taken when the log has grown by --snapshot-threshold, never by time; an idle node takes none")
	f.Refuse(c.AdminPasswordFile == "", "UNSUPPORTED: --admin-password-file: a node has API keys and no passwords; the admin's is in %s, written at the first start", filepath.Join(c.DataDir, dataplane.AdminKeyFile))
	f.Refuse(c.Heartbeat >= engine.MinHeartbeat, "--heartbeat is %v; it must be at least %v", c.Heartbeat, engine.MinHeartbeat)
	f.Refuse(c.ElectionTimeout >= c.Heartbeat, "--election-timeout is %v; it must not be less than --heartbeat, %v", c.ElectionTimeout, c.Heartbeat)
	f.Refuse(c.ProposeTimeout > 0, "--propose-timeout is %v; it must be positive", c.ProposeTimeout)
	f.Refuse(c.ShutdownTimeout > 0, "--shutdown-timeout is %v; it must be positive", c.ShutdownTimeout)
	f.Refuse(c.Durable || !given("durable"), "--durable=false says nothing of its own: say --durability %s", relaxed)
	f.Refuse(!c.Durable || c.Durability != relaxed, "--durable and --durability %s contradict each other: give one of them", relaxed)
	for _, b := range []struct {
		flag        string
		n           int64
		least, most int64
	}{
		{"--max-pending", c.MaxPending, minPending, maxPending},
		{"--max-pending-bytes", c.MaxPendingBytes, 2 * pipeline.MaxOpBytes, maxPendingBytes},
		{"--max-entry-ops", c.MaxEntryOps, 1, maxEntryOps},
		{"--max-entry-bytes", c.MaxEntryBytes, minEntryBytes, maxEntryBytes},
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
	f.Refuse(ways <= 1, "--join, --discover and --peers are different ways into a cluster: give one of them")
	f.Refuse(ways == 0 || c.raftBind() != "", "--join, --discover and --peers need a --raft-bind that is not off")
	f.Refuse(c.Bootstrap || c.raftBind() != "", "--bootstrap=false is for a node that others invite: it needs a --raft-bind that is not off")
	f.Refuse(c.Discover == "" || c.Discover == discoverDNS, "--discover is %q; it must be %s", c.Discover, discoverDNS)
	f.Refuse(c.Expect >= 1 && c.Expect <= maxExpect, "--expect is %d; it must be between 1 and %d", c.Expect, maxExpect)
	for flag, text := range map[string]string{"--join": c.Join, "--peers": c.Peers} {
		for _, address := range list(text) {
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

// raftBind is where other nodes connect; "" = nowhere.
func (c *serverConfig) raftBind() string {
	switch {
	case c.RaftBind == raftOff, c.RaftBind == "" && c.Dev:
		return ""
	case c.RaftBind != "":
		return c.RaftBind
	}
	return defaultRaftBind
}

// comesAlone says whether the node founds a cluster of its own where it is in none.
func (c *serverConfig) comesAlone() bool {
	return c.Bootstrap && c.Join == "" && c.Discover == "" && c.Peers == ""
}
