-- The tables that databases of earlier builds lack. They are created when such a database is opened.

-- The data directories that hosts have joined with. Each belongs to one host for ever.
CREATE TABLE IF NOT EXISTS stores (
    id         TEXT PRIMARY KEY,
    host       TEXT NOT NULL,
    run        INTEGER NOT NULL, -- of its newest process; rises over all stores of the host
    created_ns INTEGER NOT NULL,
    lost_ns    INTEGER NOT NULL  -- when the host joined with another store; 0 = the host has this one
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS stores_held ON stores (host) WHERE lost_ns = 0;
CREATE INDEX IF NOT EXISTS stores_host ON stores (host, run);
CREATE INDEX IF NOT EXISTS stores_lost ON stores (id) WHERE lost_ns > 0;

-- The stores that are members of a namespace's groups.
CREATE TABLE IF NOT EXISTS members (
    namespace TEXT NOT NULL,
    store     TEXT NOT NULL,
    position  INTEGER NOT NULL, -- in the list, from 0; leaving members follow
    leaving   INTEGER NOT NULL, -- 1 = the list does not name it any more
    deleted   INTEGER NOT NULL, -- 1 = the namespace is deleted; its document still tells the store's host
    PRIMARY KEY (namespace, store)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS members_store ON members (store, namespace) WHERE deleted = 0;

-- The incarnations of a namespace's groups. A namespace of an earlier version has no row until its host has reported them.
CREATE TABLE IF NOT EXISTS foundings (
    namespace    TEXT PRIMARY KEY,
    incarnations BLOB NOT NULL,   -- 16 bytes a shard
    founded_ns   INTEGER NOT NULL -- when the founding was recorded; 0 = the groups may still be founded
) STRICT, WITHOUT ROWID;

-- The Raft configurations of a namespace's groups that were reported last.
CREATE TABLE IF NOT EXISTS configurations (
    namespace TEXT PRIMARY KEY,
    indexes   BLOB NOT NULL -- 8 bytes a shard, the highest first
) STRICT, WITHOUT ROWID;

-- The namespaces whose groups were refounded from one copy and do not have all their members yet.
CREATE TABLE IF NOT EXISTS recoveries (
    namespace TEXT PRIMARY KEY,
    store     TEXT NOT NULL, -- whose copy it is
    earlier   BLOB NOT NULL, -- incarnations of the groups that lost their quorum, 16 bytes a shard
    at_ns     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The namespaces whose reconciliation is paused.
CREATE TABLE IF NOT EXISTS pauses (
    namespace TEXT PRIMARY KEY,
    principal TEXT NOT NULL, -- who paused it
    at_ns     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The hosts that shall have no namespaces.
CREATE TABLE IF NOT EXISTS drains (
    host      TEXT PRIMARY KEY,
    principal TEXT NOT NULL, -- who drains it
    at_ns     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The feature levels that were raised. The highest is in force; without a row it is 1.
CREATE TABLE IF NOT EXISTS feature_levels (
    level     INTEGER PRIMARY KEY,
    raised_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The zones of hosts that were registered with one.
CREATE TABLE IF NOT EXISTS zones (
    host TEXT PRIMARY KEY,
    zone TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The steps of the roots that rotations have added. A root without a row has signed since it was created.
CREATE TABLE IF NOT EXISTS fleet_root_times (
    fingerprint   TEXT PRIMARY KEY,
    not_before_ns INTEGER NOT NULL, -- end of the announcement
    signs_ns      INTEGER NOT NULL  -- since when it signs; 0 = it is announced
) STRICT, WITHOUT ROWID;

-- The roots that the hosts and gateways with certificates have reported when they joined last.
CREATE TABLE IF NOT EXISTS member_roots (
    host    TEXT PRIMARY KEY,
    trusted TEXT NOT NULL, -- fingerprints, separated by spaces
    issuer  TEXT NOT NULL  -- fingerprint of the root of the member's certificate
) STRICT, WITHOUT ROWID;

-- The numbers of the documents that are not placements, in one sequence with namespaces.doc_number. A document without a
-- row shows nothing.
CREATE TABLE IF NOT EXISTS documents (
    kind   TEXT NOT NULL,
    id     TEXT NOT NULL,          -- of the namespace or organisation
    number INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
