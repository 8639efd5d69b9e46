-- The tables of the view. Times are Unix nanoseconds, or NULL if there is none. In every table a job's rowid
-- is its creation number, so rowid order is newest first without a sort.

-- The values that change during a job's life. The row is small because every transition rewrites it. No
-- column is NOT NULL, because before an update that can fail SQLite copies each page. A column is NULL only
-- as its comment says.
CREATE TABLE hot (
    number           INTEGER PRIMARY KEY,
    queue            TEXT,
    state            TEXT,
    priority         INTEGER,
    attempt          INTEGER,
    errors           INTEGER, -- number of job_error rows
    worker_id        TEXT, -- NULL: no worker had it
    hostname         TEXT, -- NULL: not given
    lease_expires_ns INTEGER, -- NULL unless active
    lease_renewed_ns INTEGER, -- NULL unless active: when the lease was given or last renewed
    created_ns       INTEGER,
    scheduled_ns     INTEGER, -- this and the times below: NULL if there is none
    started_ns       INTEGER,
    completed_ns     INTEGER,
    failed_ns        INTEGER,
    cost_nano_usd    INTEGER, -- NULL: no usage was reported
    usage            TEXT -- JSON, as in a job's document; NULL like the cost
) STRICT;

-- The values that are written once, when the job is created, and again when a person changes them.
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
    options             BLOB, -- an encoded job.Options, NULL if empty
    fairness_key        TEXT,
    fairness_weight     INTEGER
) STRICT;

-- The values that attempts store. A job without any of them has no row.
CREATE TABLE work (
    number     INTEGER PRIMARY KEY,
    progress   TEXT,
    checkpoint TEXT,
    result     TEXT
) STRICT;

-- id is the job's number times 128 plus the error's index among the job's errors, so that a job's errors lie
-- together and need no index.
CREATE TABLE job_error (
    id         INTEGER PRIMARY KEY,
    attempt    INTEGER NOT NULL,
    error      TEXT NOT NULL,
    backtrace  TEXT,
    created_ns INTEGER NOT NULL,
    worker_id  TEXT, -- NULL: without a worker
    started_ns INTEGER, -- NULL: no attempt ran
    outcome    TEXT NOT NULL
) STRICT;

-- The values that few jobs have. A job without any of them has no row, so that a plain job costs nothing
-- here. Flags are 1 or NULL, and ids have the form that clients see.
CREATE TABLE extra (
    number                   INTEGER PRIMARY KEY,
    detail                   BLOB,    -- an encoded job.Detail
    -- Values of detail and of the options that searches filter by, or that the view jobs
    -- promises.
    unique_key               TEXT,
    unique_whole_period      INTEGER, -- the key stays taken after the job settles
    unique_expires_ns        INTEGER, -- NULL: it has no key, or has released it
    parent_id                TEXT,
    expire_ns                INTEGER,
    hold_reason              TEXT,
    agent_max_iterations     INTEGER,
    agent_max_cost_nano_usd  INTEGER,
    agent_iteration_timeout  TEXT,    -- a Go duration
    agent_iteration          INTEGER,
    spent_before_nano_usd    INTEGER, -- by the job whose iterations it continues
    -- Other values of the record that few jobs have.
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
    checkpoint            TEXT, -- NULL if that of the iteration before still applies
    checkpoint_in         INTEGER, -- number of the iteration that has it; NULL: there is none
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

-- id is the job's number times 128 plus the score's index among the job's scores.
CREATE TABLE job_score (
    id         INTEGER PRIMARY KEY,
    dimension  TEXT NOT NULL,
    value      REAL NOT NULL,
    scorer     TEXT,
    created_ns INTEGER NOT NULL
) STRICT;

-- A job with iterations or scores has a row in extra, because its detail counts them. So they are deleted
-- with that row, and deleting a job that never had any costs nothing.
CREATE TRIGGER extra_gone AFTER DELETE ON extra BEGIN
    DELETE FROM job_iteration WHERE id >= old.number << 20 AND id < (old.number + 1) << 20;
    DELETE FROM job_score WHERE id >= old.number << 7 AND id < (old.number + 1) << 7;
END;

-- Settings and counters as the store has them. The view never counts rows for them.
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
    provider        TEXT, -- for jobs that name none
    rate            TEXT -- JSON [[ns, count], ...]: the starts that the rate limit counts; NULL: none
) STRICT, WITHOUT ROWID;

-- Batches and schedules, under the ids that clients see.
CREATE TABLE batch (
    id               TEXT PRIMARY KEY,
    total            INTEGER NOT NULL,
    succeeded        INTEGER NOT NULL,
    failed           INTEGER NOT NULL,
    cancelled        INTEGER NOT NULL,
    open             INTEGER NOT NULL,
    callback_queue   TEXT,
    callback_payload TEXT,
    parent_id        TEXT, -- the batch of which it is a member
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

-- Usage reports, row by row, under the numbers of the store's usage rows, which are in the order of their
-- times. A row stays as long as the store's, even if its job is deleted.
CREATE TABLE usage (
    seq                   INTEGER PRIMARY KEY,
    job_id                TEXT NOT NULL,
    queue                 TEXT NOT NULL,
    attempt               INTEGER NOT NULL,
    phase                 TEXT NOT NULL, -- the request that reported it: ack, fail, heartbeat
    first                 INTEGER NOT NULL, -- 1: the first report of its job
    input_tokens          INTEGER NOT NULL,
    output_tokens         INTEGER NOT NULL,
    cache_creation_tokens INTEGER NOT NULL,
    cache_read_tokens     INTEGER NOT NULL,
    model                 TEXT,
    provider              TEXT,
    cost_nano_usd         INTEGER NOT NULL, -- the cost that counts
    reported_nano_usd     INTEGER, -- NULL: the worker reported none
    computed_nano_usd     INTEGER, -- NULL: the price book has no price
    unpriced              INTEGER NOT NULL, -- 1: no price of its model was known
    tags                  TEXT, -- JSON object, NULL when empty
    fairness_key          TEXT,
    clock_ns              INTEGER NOT NULL,
    rejected              TEXT -- why the report is kept aside and counts nowhere; NULL: it counts
) STRICT;
-- The resources of the namespace, under the ids of the store. A resource that takes the name of a deleted one
-- has another id.
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
    name               TEXT NOT NULL, -- the id that clients see
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

-- Without the secret, which no reader of this file may have, and without the outcome of deliveries, which the
-- feed does not contain.
CREATE TABLE webhook (
    id          BLOB PRIMARY KEY,
    name        TEXT NOT NULL, -- the id that clients see
    created_ns  INTEGER NOT NULL,
    url         TEXT NOT NULL,
    events      TEXT NOT NULL, -- JSON
    enabled     INTEGER NOT NULL,
    retry_limit INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Custom roles, with permissions as JSON.
CREATE TABLE role (
    id          BLOB PRIMARY KEY,
    name        TEXT NOT NULL,
    created_ns  INTEGER NOT NULL,
    permissions TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE namespace (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID; -- the store's namespace, one row

-- API keys without their secrets. The store identifies a key by its hash.
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

-- The ranges of the times of jobs: the earliest and the latest of each time that any of 4,096 consecutive
-- jobs ever had, or NULL if none had one. number is the jobs' number without its lowest 12 bits.
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

-- The full text index of queue names, payloads and tags, by the job's number. The texts themselves are in
-- document and hot. The index does not contain ids: each would be a word of its own and an entry for each
-- job, and document_by_id finds them.
CREATE VIRTUAL TABLE words USING fts5(queue, payload, tags, content='', contentless_delete=1, detail=full);

-- FTS5 rewrites a segment with deleted jobs when half of it is deleted. The default is a tenth; when jobs are
-- deleted in the order of their creation, the remaining rows would then be written ten times.
INSERT INTO words(words, rank) VALUES ('deletemerge', 50);

-- The position of the view, written in the transaction of the rows up to it.
CREATE TABLE cursor (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    incarnation   BLOB,             -- of the store; NULL: the store was empty
    next_seq      INTEGER NOT NULL, -- first event not in the view
    raft_index    INTEGER NOT NULL, -- everything up to it is in the view
    clock_ns      INTEGER NOT NULL, -- of the last entry in the view
    -- The newest feed entry of the store from which rows were read. A store that has this entry
    -- shares the view's history. seen_index is 0 if there was no entry.
    seen_seq      INTEGER NOT NULL, -- first event after it
    seen_index    INTEGER NOT NULL,
    seen_clock_ns INTEGER NOT NULL,
    seen_term     INTEGER NOT NULL, -- upper bound of its term
    seen_leader   BLOB -- seed of the first entry of the store's newest term; NULL: there was none
) STRICT;

CREATE INDEX hot_by_queue_state ON hot(queue, state);

-- For searches such as "every dead job" over all queues. The index leaves out the frequent states, so that a
-- job that completes before the next flush costs nothing. (With an IN list here, every write would build a
-- set.)
CREATE INDEX hot_by_rare_state ON hot(state) WHERE state <> 'pending' AND state <> 'completed';

CREATE UNIQUE INDEX document_by_id ON document(id);

-- Searches by values that few jobs have. Each index has only the rows with the value.
CREATE INDEX extra_by_unique_key ON extra(unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX extra_by_batch ON extra(batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX extra_by_parent ON extra(parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX extra_by_chain ON extra(chain_id) WHERE chain_id IS NOT NULL;
CREATE INDEX extra_by_expiry ON extra(expire_ns) WHERE expire_ns IS NOT NULL;
-- The audit log, under the numbers of the store's records.
CREATE TABLE audit (
    seq        INTEGER PRIMARY KEY,
    namespace  TEXT NOT NULL,
    principal  TEXT, -- NULL: no known principal
    role       TEXT,
    method     TEXT NOT NULL,
    path       TEXT NOT NULL,
    status     INTEGER NOT NULL,
    metadata   TEXT NOT NULL, -- JSON object
    clock_ns   INTEGER NOT NULL,
    hash       BLOB NOT NULL
) STRICT;
