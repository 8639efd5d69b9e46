-- The state of the control plane. Times are Unix nanoseconds; 0 = none. The key of a table
-- consists of its own columns, never of a rowid, because every query must return the same
-- from a copy of the file as from the original.

-- The position of the state and its counters. Every entry rewrites the one row.
CREATE TABLE meta (
    one                 INTEGER PRIMARY KEY CHECK (one = 1),
    group_name          TEXT NOT NULL,
    incarnation         BLOB NOT NULL,
    raft_index          INTEGER NOT NULL,
    raft_term           INTEGER NOT NULL,
    clock_ns            INTEGER NOT NULL, -- of the last entry
    configuration       BLOB,             -- raft's membership; NULL = none yet
    configuration_index INTEGER NOT NULL,
    doc_number          INTEGER NOT NULL, -- of the newest document
    audit_seq           INTEGER NOT NULL, -- of the newest audit row
    audit_hash          BLOB NOT NULL,    -- of the newest row of a change
    refused_hash        BLOB NOT NULL,    -- of the newest row of refused requests
    refused_anchor      BLOB NOT NULL,    -- that hash of the last row that was removed
    refused_removed     INTEGER NOT NULL, -- and its number; 0 = none was
    idempotency_records INTEGER NOT NULL
) STRICT;

CREATE TABLE orgs (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    version    INTEGER NOT NULL,
    created_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A deleted namespace keeps its row, for its document and because its usage must still be
-- paid.
CREATE TABLE namespaces (
    id                  TEXT PRIMARY KEY,
    org                 TEXT NOT NULL,
    name                TEXT NOT NULL,
    version             INTEGER NOT NULL,
    generation          INTEGER NOT NULL,
    observed            INTEGER NOT NULL,
    region              TEXT NOT NULL,
    tier                TEXT NOT NULL,
    replicas            INTEGER NOT NULL,
    shards              INTEGER NOT NULL,
    deletion_protection INTEGER NOT NULL,
    phase               TEXT NOT NULL,
    operation           TEXT NOT NULL,
    trace               TEXT NOT NULL,
    doc_number          INTEGER NOT NULL UNIQUE,
    created_ns          INTEGER NOT NULL,
    listed              INTEGER NOT NULL -- number of its members that are not leaving
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX namespaces_name ON namespaces (org, name) WHERE phase <> 'deleted';
CREATE INDEX namespaces_org ON namespaces (org, id);
-- The namespaces on which the reconciler must work because of their own row: see Unsettled.
CREATE INDEX namespaces_unsettled ON namespaces (id)
    WHERE phase <> 'deleted' AND (operation <> '' OR observed < generation OR listed <> replicas);

CREATE TABLE operations (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    org         TEXT NOT NULL,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    status      TEXT NOT NULL,
    error_code  TEXT NOT NULL,
    error_text  TEXT NOT NULL,
    created_ns  INTEGER NOT NULL,
    finished_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX operations_org ON operations (org, created_ns, id);

CREATE TABLE hosts (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    region     TEXT NOT NULL,
    address    TEXT NOT NULL,
    binary     TEXT NOT NULL, -- version of its binary
    version    INTEGER NOT NULL,
    created_ns INTEGER NOT NULL,
    raft       TEXT NOT NULL  -- host:port of its Raft members; '' = nowhere
) STRICT, WITHOUT ROWID;

CREATE TABLE credentials (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    owner       TEXT NOT NULL, -- '' = an operator's
    name        TEXT NOT NULL,
    roles       TEXT NOT NULL, -- separated by spaces
    queue_scope TEXT NOT NULL, -- likewise
    hash        BLOB NOT NULL,
    created_ns  INTEGER NOT NULL,
    expires_ns  INTEGER NOT NULL,
    lifetime_ns INTEGER NOT NULL, -- from its creation to the end it was created with; 0 = for ever
    enabled     INTEGER NOT NULL, -- 0 = it opens nothing
    version     INTEGER NOT NULL  -- rises with every change
) STRICT, WITHOUT ROWID;
CREATE INDEX credentials_owner ON credentials (owner, created_ns, id);
CREATE INDEX credentials_expiry ON credentials (expires_ns, id) WHERE expires_ns > 0;

-- Custom roles. Keys of the namespace have them by name.
CREATE TABLE roles (
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    permissions TEXT NOT NULL, -- separated by spaces
    created_ns  INTEGER NOT NULL,
    version     INTEGER NOT NULL, -- rises with every change
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

-- The ids of ended credentials. None of them is created again, because a process may still
-- have a revoked credential in a file.
CREATE TABLE ended_credentials (
    id       TEXT PRIMARY KEY,
    ended_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last applied number of each source of usage.
CREATE TABLE usage_sources (
    namespace   TEXT NOT NULL,
    stream      TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    last_seq    INTEGER NOT NULL,
    applied_ns  INTEGER NOT NULL, -- when
    PRIMARY KEY (namespace, stream, incarnation)
) STRICT, WITHOUT ROWID;

-- The journal of usage: a row for each row of a frame. Rows are never changed.
CREATE TABLE usage_journal (
    namespace   TEXT NOT NULL,
    stream      TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    to_seq      INTEGER NOT NULL, -- the frame is [from_seq, to_seq]
    row_no      INTEGER NOT NULL, -- of the frame, from 0
    meter       INTEGER NOT NULL, -- number of billing.Meter; a row of an earlier build had several
    from_seq    INTEGER NOT NULL,
    applied_ns  INTEGER NOT NULL,
    hour_ns     INTEGER NOT NULL,
    queue       TEXT NOT NULL,
    model       TEXT NOT NULL,
    provider    TEXT NOT NULL,
    quantity    INTEGER NOT NULL,
    PRIMARY KEY (namespace, stream, incarnation, to_seq, row_no, meter)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER usage_journal_update BEFORE UPDATE ON usage_journal BEGIN SELECT RAISE(ABORT, 'usage is never changed'); END;
CREATE TRIGGER usage_journal_delete BEFORE DELETE ON usage_journal BEGIN SELECT RAISE(ABORT, 'usage is never deleted'); END;

-- The sums of the journal by hour, from which queries are answered. A sum that exceeds an
-- integer continues in another part.
CREATE TABLE usage_hourly (
    namespace TEXT NOT NULL,
    hour_ns   INTEGER NOT NULL,
    queue     TEXT NOT NULL,
    model     TEXT NOT NULL,
    provider  TEXT NOT NULL,
    meter     INTEGER NOT NULL,
    part      INTEGER NOT NULL, -- from 0
    quantity  INTEGER NOT NULL,
    PRIMARY KEY (namespace, hour_ns, queue, model, provider, meter, part)
) STRICT, WITHOUT ROWID;

-- Frames that the control plane refused while their namespaces were deleted. No sum
-- includes them. An operator decides on them and removes them.
CREATE TABLE usage_aside (
    seq         INTEGER PRIMARY KEY, -- of the audit row that the frame left
    at_ns       INTEGER NOT NULL,
    org         TEXT NOT NULL,
    namespace   TEXT NOT NULL,
    stream      TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    from_seq    INTEGER NOT NULL, -- the frame is [from_seq, to_seq]
    to_seq      INTEGER NOT NULL,
    code        TEXT NOT NULL, -- of the refusal
    reason      TEXT NOT NULL, -- its message
    bytes       INTEGER NOT NULL, -- of the frame
    frame       BLOB NOT NULL -- JSON, as it came
) STRICT;
CREATE TRIGGER usage_aside_update BEFORE UPDATE ON usage_aside BEGIN SELECT RAISE(ABORT, 'usage is never changed'); END;
-- The op that removes a frame has added an audit row that names the frame just before.
CREATE TRIGGER usage_aside_delete BEFORE DELETE ON usage_aside
    WHEN (SELECT action || ' ' || target FROM audit ORDER BY seq DESC LIMIT 1) IS NOT 'remove-aside-usage ' || OLD.namespace || '/' || OLD.seq
    BEGIN SELECT RAISE(ABORT, 'usage is deleted only by an audited op'); END;
-- The index sums the bytes of a namespace and of the cloud without reading frames.
CREATE INDEX usage_aside_bytes ON usage_aside (namespace, bytes);

CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY,
    at_ns     INTEGER NOT NULL,
    org       TEXT NOT NULL, -- '' = the cloud's own
    principal TEXT NOT NULL,
    action    TEXT NOT NULL,
    target    TEXT NOT NULL,
    refused   TEXT NOT NULL,    -- error code of refused requests; '' = the change was made
    count     INTEGER NOT NULL, -- requests that the row stands for
    batch     TEXT NOT NULL,    -- of the op that recorded refused requests; '' = a change
    hash      BLOB NOT NULL
) STRICT;
CREATE INDEX audit_org ON audit (org, seq);
CREATE INDEX audit_batch ON audit (batch) WHERE batch <> '';
CREATE INDEX audit_refused ON audit (at_ns, seq) WHERE batch <> '';
CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is never changed'); END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit WHEN OLD.batch = '' BEGIN SELECT RAISE(ABORT, 'the audit log is never shortened'); END;

-- The results of requests with an idempotency key.
CREATE TABLE idempotency (
    principal    TEXT NOT NULL,
    key          TEXT NOT NULL,
    request_hash BLOB NOT NULL,
    op           INTEGER NOT NULL,
    result       BLOB NOT NULL,
    expires_ns   INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency (expires_ns, principal, key);

CREATE TABLE signing_keys (
    number           INTEGER PRIMARY KEY, -- rises: the highest signs
    id               TEXT NOT NULL UNIQUE,
    seed             BLOB NOT NULL,
    created_ns       INTEGER NOT NULL,
    trusted_until_ns INTEGER NOT NULL     -- 0 for the one that signs
) STRICT;

CREATE TABLE fleet_roots (
    fingerprint TEXT PRIMARY KEY, -- SHA-256 of the certificate, in hexadecimal
    seed        BLOB NOT NULL,    -- of the private key
    certificate BLOB NOT NULL,    -- in DER
    created_ns  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
