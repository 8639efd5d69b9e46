-- The tables of the view. Times are Unix nanoseconds, NULL where there is none.
-- A job's rowid everywhere is its creation number: newest first is rowid order,
-- and no sort is needed.

-- What changes in a job's life, kept small: every transition rewrites its row.
CREATE TABLE hot (
    number           INTEGER PRIMARY KEY,
    queue            TEXT NOT NULL,
    state            TEXT NOT NULL,
    priority         INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    errors           INTEGER NOT NULL, -- how many job_error rows there are
    worker_id        TEXT,
    hostname         TEXT,
    lease_expires_ns INTEGER, -- while active
    lease_renewed_ns INTEGER, -- while active: when the lease was given or last renewed
    created_ns       INTEGER NOT NULL,
    scheduled_ns     INTEGER,
    started_ns       INTEGER,
    completed_ns     INTEGER,
    failed_ns        INTEGER,
    cost_nano_usd    INTEGER, -- NULL: no usage was reported
    usage            TEXT     -- JSON, as in a job's document
) STRICT;

-- What is written once, when the job is created.
CREATE TABLE document (
    number              INTEGER PRIMARY KEY,
    id                  TEXT NOT NULL,
    payload             TEXT,
    max_retries         INTEGER NOT NULL,
    retry_backoff       TEXT NOT NULL,
    retry_base_delay_ms INTEGER NOT NULL,
    retry_max_delay_ms  INTEGER NOT NULL,
    tags                TEXT, -- JSON object, NULL when empty
    headers             TEXT  -- JSON object, NULL when empty
) STRICT;

-- What attempts leave behind; a job without any of it has no row.
CREATE TABLE work (
    number     INTEGER PRIMARY KEY,
    progress   TEXT,
    checkpoint TEXT,
    result     TEXT
) STRICT;

-- id is the job's number times 128 plus the error's place among the job's
-- errors, so that a job's errors lie together and need no index.
CREATE TABLE job_error (
    id         INTEGER PRIMARY KEY,
    attempt    INTEGER NOT NULL,
    error      TEXT NOT NULL,
    backtrace  TEXT,
    created_ns INTEGER NOT NULL,
    worker_id  TEXT,    -- NULL: it ran with none
    started_ns INTEGER, -- NULL: it did not run
    outcome    TEXT NOT NULL
) STRICT;

-- What few jobs have. A job that has none of it has no row, so that one nobody
-- asked more of than to be run costs nothing here. Flags are 1 or NULL, ids are
-- as clients see them.
CREATE TABLE extra (
    number              INTEGER PRIMARY KEY,
    unique_key          TEXT,
    unique_period_ms    INTEGER,
    unique_whole_period INTEGER, -- the key stays taken when the job settles
    unique_expires_ns   INTEGER, -- NULL: it has no key, or has given it back
    batch_id            TEXT,
    parent_id           TEXT,
    chain_id            TEXT,
    chain_step          INTEGER,
    chain_config        TEXT,    -- JSON
    schedule_id         TEXT,
    hold_reason         TEXT,
    expire_after_ms     INTEGER,
    expire_ns           INTEGER,
    cancelling          INTEGER,
    cancelled_ns        INTEGER,
    blocked_by          INTEGER,
    dependency_policy   INTEGER, -- as in its record; NULL: fail
    attempt_base        INTEGER,
    jitter_percent      INTEGER
) STRICT;

-- Settings and counters as the store keeps them; nothing here is ever counted
-- from rows.
CREATE TABLE queue (
    name            TEXT PRIMARY KEY,
    created_ns      INTEGER NOT NULL,
    paused          INTEGER NOT NULL,
    max_concurrency INTEGER, -- NULL: unlimited
    scheduled       INTEGER NOT NULL,
    pending         INTEGER NOT NULL,
    active          INTEGER NOT NULL,
    retrying        INTEGER NOT NULL,
    held            INTEGER NOT NULL,
    completed       INTEGER NOT NULL,
    dead            INTEGER NOT NULL,
    cancelled       INTEGER NOT NULL,
    enqueued_total  INTEGER NOT NULL,
    completed_total INTEGER NOT NULL,
    failed_total    INTEGER NOT NULL,
    dead_total      INTEGER NOT NULL,
    rate_limit      INTEGER, -- NULL: unlimited
    rate_window_ms  INTEGER,
    draining        INTEGER NOT NULL,
    deleting        INTEGER NOT NULL,
    max_length      INTEGER, -- NULL: unlimited
    on_full         TEXT NOT NULL,
    retention       TEXT,    -- JSON, as in GET /queues
    defaults        TEXT,    -- JSON, as in GET /queues
    unique_locks    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Batches and schedules, under their ids as clients see them.
CREATE TABLE batch (
    id               TEXT PRIMARY KEY,
    total            INTEGER NOT NULL,
    succeeded        INTEGER NOT NULL,
    failed           INTEGER NOT NULL,
    cancelled        INTEGER NOT NULL,
    open             INTEGER NOT NULL,
    callback_queue   TEXT,
    callback_payload TEXT,
    parent_id        TEXT, -- of the batch it is a member of
    created_ns       INTEGER NOT NULL,
    completed_ns     INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    queue       TEXT NOT NULL,
    cron        TEXT NOT NULL,
    timezone    TEXT NOT NULL,
    payload     TEXT,
    unique_key  TEXT,
    max_retries INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    missed      TEXT NOT NULL, -- skip, once or all
    jitter_ms   INTEGER NOT NULL,
    paused      INTEGER NOT NULL,
    last_run_ns INTEGER,
    next_run_ns INTEGER, -- NULL while paused
    created_ns  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How far the view is; written in the transaction it speaks of.
CREATE TABLE cursor (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    incarnation   BLOB,             -- of the store; NULL: the store was empty
    next_seq      INTEGER NOT NULL, -- first event not in the view
    raft_index    INTEGER NOT NULL, -- everything up to it is in the view
    -- The newest feed entry of the store that rows were read from: a store that
    -- has it is of the view's history. seen_index is 0 where there was none.
    seen_seq      INTEGER NOT NULL, -- first event after it
    seen_index    INTEGER NOT NULL,
    seen_clock_ns INTEGER NOT NULL,
    seen_term     INTEGER NOT NULL  -- its term is this at most
) STRICT;

CREATE INDEX hot_by_queue_state ON hot(queue, state);

-- For "every dead job" and the like, over all queues. The frequent states are
-- left out, so that a job which is done by the next flush pays nothing. (An IN
-- list here would cost every write the building of a set.)
CREATE INDEX hot_by_rare_state ON hot(state) WHERE state <> 'pending' AND state <> 'completed';

CREATE UNIQUE INDEX document_by_id ON document(id);

-- Searches by what few jobs have. Each index is on the rows that have it.
CREATE INDEX extra_by_unique_key ON extra(unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX extra_by_batch ON extra(batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX extra_by_parent ON extra(parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX extra_by_chain ON extra(chain_id) WHERE chain_id IS NOT NULL;
CREATE INDEX extra_by_expiry ON extra(expire_ns) WHERE expire_ns IS NOT NULL;
