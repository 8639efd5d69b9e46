-- The tables of the view. Times are Unix nanoseconds, NULL where there is none.
-- A job's rowid everywhere is its creation number: newest first is rowid order,
-- and no sort is needed.

-- What changes in a job's life, kept small: every transition rewrites its row. No
-- column says NOT NULL: an update that can fail has SQLite copy each page before, for
-- the case that it does. NULL is only where a comment says so.
CREATE TABLE hot (
    number           INTEGER PRIMARY KEY,
    queue            TEXT,
    state            TEXT,
    priority         INTEGER,
    attempt          INTEGER,
    errors           INTEGER, -- how many job_error rows there are
    worker_id        TEXT,    -- NULL: none had it
    hostname         TEXT,    -- NULL: it was not given
    lease_expires_ns INTEGER, -- NULL unless active
    lease_renewed_ns INTEGER, -- NULL unless active: when the lease was given or last renewed
    created_ns       INTEGER,
    scheduled_ns     INTEGER, -- this and the times below: NULL where there is none
    started_ns       INTEGER,
    completed_ns     INTEGER,
    failed_ns        INTEGER,
    cost_nano_usd    INTEGER, -- NULL: no usage was reported
    usage            TEXT     -- JSON, as in a job's document; NULL like the cost
) STRICT;

-- What is written once, when the job is created; anew when a person changes it.
CREATE TABLE document (
    number              INTEGER PRIMARY KEY,
    id                  TEXT NOT NULL,
    payload             TEXT,
    max_retries         INTEGER NOT NULL,
    retry_backoff       TEXT NOT NULL,
    retry_base_delay_ms INTEGER NOT NULL,
    retry_max_delay_ms  INTEGER NOT NULL,
    tags                TEXT, -- JSON object, NULL when empty
    headers             TEXT, -- JSON object, NULL when empty
    result_schema       TEXT,
    options             BLOB, -- an encoded job.Options, NULL when it says nothing
    fairness_key        TEXT,
    fairness_weight     INTEGER
) STRICT;

-- What attempts leave behind; a job without any of it has no row.
CREATE TABLE work (
    number     INTEGER PRIMARY KEY,
    progress   TEXT,
    checkpoint TEXT,
    result     TEXT
) STRICT;

-- id is the job's number times 128 plus the error's position among the job's
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
    number                   INTEGER PRIMARY KEY,
    detail                   BLOB,    -- an encoded job.Detail
    -- Of it and of the options, what is searched for or promised as a column of jobs.
    unique_key               TEXT,
    unique_whole_period      INTEGER, -- the key stays taken when the job settles
    unique_expires_ns        INTEGER, -- NULL: it has no key, or has given it back
    parent_id                TEXT,
    expire_ns                INTEGER,
    hold_reason              TEXT,
    agent_max_iterations     INTEGER,
    agent_max_cost_nano_usd  INTEGER,
    agent_iteration_timeout  TEXT,    -- a Go duration
    agent_iteration          INTEGER,
    spent_before_nano_usd    INTEGER, -- by the job whose iterations it goes on from
    -- What else of its record few have.
    batch_id                 TEXT,
    chain_id                 TEXT,
    chain_step               INTEGER,
    chain_config             TEXT,    -- JSON
    cancelling               INTEGER,
    blocked_by               INTEGER,
    attempt_base             INTEGER,
    jitter_percent           INTEGER
) STRICT;

-- id is the job's number times 2^20 plus the iteration's.
CREATE TABLE job_iteration (
    id                    INTEGER PRIMARY KEY,
    status                TEXT NOT NULL, -- continue, done or hold
    checkpoint            TEXT,          -- where it is another than that of the iteration before
    checkpoint_in         INTEGER,       -- the iteration that has it, NULL: there is none
    trace                 TEXT,
    hold_reason           TEXT,
    result                TEXT,
    input_tokens          INTEGER NOT NULL,
    output_tokens         INTEGER NOT NULL,
    cache_creation_tokens INTEGER NOT NULL,
    cache_read_tokens     INTEGER NOT NULL,
    model                 TEXT,
    provider              TEXT,
    cost_nano_usd         INTEGER NOT NULL,
    created_ns            INTEGER NOT NULL
) STRICT;

-- id is the job's number times 128 plus the score's position among the job's.
CREATE TABLE job_score (
    id         INTEGER PRIMARY KEY,
    dimension  TEXT NOT NULL,
    value      REAL NOT NULL,
    scorer     TEXT,
    created_ns INTEGER NOT NULL
) STRICT;

-- A job with iterations or scores has a row in extra, since its detail counts them.
-- So they go with that row, and a job that never had any pays nothing when it goes.
CREATE TRIGGER extra_gone AFTER DELETE ON extra BEGIN
    DELETE FROM job_iteration WHERE id >= old.number << 20 AND id < (old.number + 1) << 20;
    DELETE FROM job_score WHERE id >= old.number << 7 AND id < (old.number + 1) << 7;
END;

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
    ageing_ms       INTEGER, -- NULL: priorities do not age
    on_full         TEXT NOT NULL,
    retention       TEXT,    -- JSON, as in GET /queues
    defaults        TEXT,    -- JSON, as in GET /queues
    unique_locks    INTEGER NOT NULL,
    provider        TEXT,    -- of jobs that name none
    rate            TEXT     -- JSON [[ns, count], ...]: what its rate limit remembers; NULL: nothing
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

-- What was reported, row by row, under the numbers of the store's usage rows: times
-- rise with them. A row stays as long as the store's, whatever becomes of its job.
CREATE TABLE usage (
    seq                   INTEGER PRIMARY KEY,
    job_id                TEXT NOT NULL,
    queue                 TEXT NOT NULL,
    attempt               INTEGER NOT NULL,
    phase                 TEXT NOT NULL, -- what it came with: ack, fail, heartbeat
    first                 INTEGER NOT NULL, -- nothing was reported of its job before
    input_tokens          INTEGER NOT NULL,
    output_tokens         INTEGER NOT NULL,
    cache_creation_tokens INTEGER NOT NULL,
    cache_read_tokens     INTEGER NOT NULL,
    model                 TEXT,
    provider              TEXT,
    cost_nano_usd         INTEGER NOT NULL, -- what counts
    reported_nano_usd     INTEGER, -- NULL: the worker said none
    computed_nano_usd     INTEGER, -- NULL: the price book says nothing
    unpriced              INTEGER NOT NULL, -- no price of its model was known
    tags                  TEXT, -- JSON object, NULL when empty
    fairness_key          TEXT,
    clock_ns              INTEGER NOT NULL,
    rejected              TEXT -- why it is kept aside and counts nowhere; NULL: it counts
) STRICT;
-- What is declared for the namespace, under the ids that the store knows it by: one
-- that takes the name of another is another.
CREATE TABLE budget (
    id               BLOB PRIMARY KEY,
    name             TEXT NOT NULL, -- scope/target
    created_ns       INTEGER NOT NULL,
    daily_nano_usd   INTEGER,       -- NULL: unlimited
    monthly_nano_usd INTEGER,
    per_job_nano_usd INTEGER,
    on_exceed        TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE provider (
    id               BLOB PRIMARY KEY,
    name             TEXT NOT NULL,
    created_ns       INTEGER NOT NULL,
    rpm_limit        INTEGER, -- NULL: unlimited
    input_tpm_limit  INTEGER,
    output_tpm_limit INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE approval_policy (
    id                 BLOB PRIMARY KEY,
    name               TEXT NOT NULL, -- the id clients know it by
    created_ns         INTEGER NOT NULL,
    label              TEXT NOT NULL,
    mode               TEXT NOT NULL, -- any or all
    enabled            INTEGER NOT NULL,
    queue              TEXT,
    tag_key            TEXT,
    tag_value          TEXT,
    cost_nano_usd_gt   INTEGER,
    agent_iteration_gt INTEGER
) STRICT, WITHOUT ROWID;

-- Without the secret, which no reader of this file is to have, and without what came
-- of deliveries, of which the feed does not tell.
CREATE TABLE webhook (
    id          BLOB PRIMARY KEY,
    name        TEXT NOT NULL, -- the id clients know it by
    created_ns  INTEGER NOT NULL,
    url         TEXT NOT NULL,
    events      TEXT NOT NULL, -- JSON
    enabled     INTEGER NOT NULL,
    retry_limit INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Custom roles, whose permissions are JSON.
CREATE TABLE role (
    id          BLOB PRIMARY KEY,
    name        TEXT NOT NULL,
    created_ns  INTEGER NOT NULL,
    permissions TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE namespace (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID; -- the store's: one row

-- API keys, without their secrets. hash is what the store knows a key by.
CREATE TABLE api_key (
    id          TEXT PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    hash        TEXT NOT NULL, -- SHA-256 in hexadecimal digits
    roles       TEXT NOT NULL, -- JSON
    queue_scope TEXT,          -- JSON, NULL: every queue
    enabled     INTEGER NOT NULL,
    expires_ns  INTEGER,
    created_ns  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Where there can be jobs of a time: the earliest and the latest of each time that a
-- job of 4,096 numbers ever had, NULL where none had one. number is that of the jobs,
-- without its lowest 12 bits.
CREATE TABLE time_range (
    number          INTEGER PRIMARY KEY,
    created_first   INTEGER,
    created_last    INTEGER,
    scheduled_first INTEGER,
    scheduled_last  INTEGER,
    started_first   INTEGER,
    started_last    INTEGER,
    completed_first INTEGER,
    completed_last  INTEGER
) STRICT;

-- The words of queue names, payloads and tags, by the job's number. The texts themselves
-- are in document and hot. Ids are not in it: each is a word of its own, which would make
-- the index grow by an entry a job, and document_by_id finds them.
CREATE VIRTUAL TABLE words USING fts5(queue, payload, tags, content='', contentless_delete=1, detail=full);

-- A segment of this index, of which jobs were deleted, is written again when half of it is
-- gone. By default it is when a tenth is: of jobs that go in the order in which they came,
-- what is left would be written ten times.
INSERT INTO words(words, rank) VALUES ('deletemerge', 50);

-- How far the view is; written in the transaction it speaks of.
CREATE TABLE cursor (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    incarnation   BLOB,             -- of the store; NULL: the store was empty
    next_seq      INTEGER NOT NULL, -- first event not in the view
    raft_index    INTEGER NOT NULL, -- everything up to it is in the view
    clock_ns      INTEGER NOT NULL, -- of the last entry in the view
    -- The newest feed entry of the store that rows were read from: a store that
    -- has it is of the view's history. seen_index is 0 where there was none.
    seen_seq      INTEGER NOT NULL, -- first event after it
    seen_index    INTEGER NOT NULL,
    seen_clock_ns INTEGER NOT NULL,
    seen_term     INTEGER NOT NULL, -- its term is this at most
    seen_leader   BLOB              -- seed of the first entry of the store's newest term; NULL: there was none
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
-- The audit log, under the numbers of the store's records.
CREATE TABLE audit (
    seq        INTEGER PRIMARY KEY,
    namespace  TEXT NOT NULL,
    principal  TEXT, -- NULL: nobody that is known
    role       TEXT,
    method     TEXT NOT NULL,
    path       TEXT NOT NULL,
    status     INTEGER NOT NULL,
    metadata   TEXT NOT NULL, -- JSON object
    clock_ns   INTEGER NOT NULL,
    hash       BLOB NOT NULL
) STRICT;
