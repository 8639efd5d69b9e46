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
    created_ns INTEGER NOT NULL
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
    dead_total      INTEGER NOT NULL
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
