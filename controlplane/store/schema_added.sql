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

-- The frames of the journal, with the hashes of their rows. A frame of an earlier build has no row.
CREATE TABLE IF NOT EXISTS usage_frames (
    namespace   TEXT NOT NULL,
    stream      TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    to_seq      INTEGER NOT NULL, -- the frame is [from_seq, to_seq]
    from_seq    INTEGER NOT NULL,
    rows        INTEGER NOT NULL, -- number of rows, those that were set aside included
    rows_sha256 BLOB NOT NULL,
    PRIMARY KEY (namespace, stream, incarnation, to_seq)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS usage_frames_update BEFORE UPDATE ON usage_frames BEGIN SELECT RAISE(ABORT, 'usage is never changed'); END;
CREATE TRIGGER IF NOT EXISTS usage_frames_delete BEFORE DELETE ON usage_frames BEGIN SELECT RAISE(ABORT, 'usage is never deleted'); END;

-- The journal of the ledger (ADR 0090). Transactions and postings are only added. Amounts are nano-USD.
CREATE TABLE IF NOT EXISTS ledger_transactions (
    number    INTEGER PRIMARY KEY, -- from 1, without gaps
    at_ns     INTEGER NOT NULL,
    closes_ns INTEGER NOT NULL,    -- end of the month that it closes; 0 = it closes none
    source    TEXT NOT NULL UNIQUE,
    org       TEXT NOT NULL,       -- '' = the closing of a month
    currency  TEXT NOT NULL,
    principal TEXT NOT NULL,
    approver  TEXT NOT NULL,       -- the second person; '' = none was needed
    memo      TEXT NOT NULL,
    hash      BLOB NOT NULL        -- of this transaction and all before
) STRICT;
CREATE TABLE IF NOT EXISTS ledger_postings (
    number  INTEGER NOT NULL, -- of the transaction
    account INTEGER NOT NULL, -- number of billing.Account
    amount  INTEGER NOT NULL, -- positive = debit, negative = credit
    PRIMARY KEY (number, account)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS ledger_transactions_update BEFORE UPDATE ON ledger_transactions BEGIN SELECT RAISE(ABORT, 'the ledger is never changed'); END;
CREATE TRIGGER IF NOT EXISTS ledger_transactions_delete BEFORE DELETE ON ledger_transactions BEGIN SELECT RAISE(ABORT, 'the ledger is never shortened'); END;
CREATE TRIGGER IF NOT EXISTS ledger_postings_update BEFORE UPDATE ON ledger_postings BEGIN SELECT RAISE(ABORT, 'the ledger is never changed'); END;
CREATE TRIGGER IF NOT EXISTS ledger_postings_delete BEFORE DELETE ON ledger_postings BEGIN SELECT RAISE(ABORT, 'the ledger is never shortened'); END;
-- The head of the ledger moves after its newest transaction has all its postings.
CREATE TRIGGER IF NOT EXISTS ledger_postings_insert BEFORE INSERT ON ledger_postings
    WHEN NEW.number <> 1 + COALESCE((SELECT number FROM ledger_head), 0) BEGIN SELECT RAISE(ABORT, 'an earlier transaction of the ledger gets no postings'); END;

-- The end of the journal, so that a shortened one is detected. No row = the ledger is empty.
CREATE TABLE IF NOT EXISTS ledger_head (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    number    INTEGER NOT NULL, -- of the newest transaction
    hash      BLOB NOT NULL,
    closed_ns INTEGER NOT NULL, -- end of the closed months; 0 = none is closed
    first_ns  INTEGER NOT NULL  -- time of the first transaction
) STRICT;

-- The sums of the postings, which can be recomputed from the journal.
CREATE TABLE IF NOT EXISTS ledger_balances (
    org      TEXT NOT NULL,
    currency TEXT NOT NULL,
    account  INTEGER NOT NULL,
    balance  INTEGER NOT NULL, -- positive = debit, negative = credit
    PRIMARY KEY (org, currency, account)
) STRICT, WITHOUT ROWID;

-- The requests that wait for a second person. A request that was approved or withdrawn has no row.
CREATE TABLE IF NOT EXISTS approvals (
    kind      TEXT NOT NULL,
    id        TEXT NOT NULL, -- of the record that waits
    principal TEXT NOT NULL, -- who asks
    at_ns     INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS credits (
    id         TEXT PRIMARY KEY,
    org        TEXT NOT NULL,
    currency   TEXT NOT NULL,
    amount     INTEGER NOT NULL, -- nano-USD
    rest       INTEGER NOT NULL, -- not used yet; 0 unless it is active
    reason     TEXT NOT NULL,
    status     TEXT NOT NULL,
    principal  TEXT NOT NULL,    -- who granted it, or asks to
    approver   TEXT NOT NULL,    -- the second person; '' = none
    created_ns INTEGER NOT NULL,
    granted_ns INTEGER NOT NULL, -- when it became active; 0 = never
    expires_ns INTEGER NOT NULL, -- 0 = never
    ended_ns   INTEGER NOT NULL  -- when it was withdrawn, was revoked or has expired
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS credits_org ON credits (org, id);
DROP INDEX IF EXISTS credits_expiry; -- of an earlier build
CREATE INDEX IF NOT EXISTS credits_due ON credits (expires_ns, id) WHERE ended_ns = 0 AND expires_ns > 0 AND status <> 'expiring';

-- The newest claims that sources of usage are complete.
CREATE TABLE IF NOT EXISTS usage_claims (
    namespace   TEXT NOT NULL, -- '' = of a gateway, for all namespaces
    stream      TEXT NOT NULL,
    incarnation TEXT NOT NULL, -- '' = of a gateway
    until_ns    INTEGER NOT NULL, -- no row follows of an hour that ends by then; never falls
    at_ns       INTEGER NOT NULL, -- when it was recorded
    PRIMARY KEY (namespace, stream)
) STRICT, WITHOUT ROWID;

-- The histories of organisations' plans. An organisation without a row has the plan free.
CREATE TABLE IF NOT EXISTS plan_changes (
    org       TEXT NOT NULL,
    from_ns   INTEGER NOT NULL, -- a whole hour; a change that has not begun may be replaced
    plan      TEXT NOT NULL,
    overrides BLOB NOT NULL,    -- billing.Overrides in JSON; empty = none
    principal TEXT NOT NULL,    -- who made it
    at_ns     INTEGER NOT NULL,
    PRIMARY KEY (org, from_ns)
) STRICT, WITHOUT ROWID;

-- The corrections of usage. One that is applied has a row in the journal, with the stream correction/<id>.
CREATE TABLE IF NOT EXISTS usage_corrections (
    id         TEXT PRIMARY KEY,
    org        TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    hour_ns    INTEGER NOT NULL,
    queue      TEXT NOT NULL,
    model      TEXT NOT NULL,
    provider   TEXT NOT NULL,
    meter      INTEGER NOT NULL, -- number of billing.Meter
    quantity   INTEGER NOT NULL, -- negative = taken away
    reason     TEXT NOT NULL,
    status     TEXT NOT NULL,    -- pending, applied or rejected
    principal  TEXT NOT NULL,    -- who proposed it
    created_ns INTEGER NOT NULL,
    decider    TEXT NOT NULL,    -- who approved or rejected it; '' = it is pending
    decided_ns INTEGER NOT NULL, -- 0 = it is pending
    rejection  TEXT NOT NULL     -- reason of the rejection
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS usage_corrections_org ON usage_corrections (org, id);
CREATE INDEX IF NOT EXISTS usage_corrections_pending ON usage_corrections (org) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS usage_corrections_applied ON usage_corrections (namespace, hour_ns) WHERE status = 'applied';
CREATE TRIGGER IF NOT EXISTS usage_corrections_update BEFORE UPDATE ON usage_corrections
    WHEN OLD.status <> 'pending' BEGIN SELECT RAISE(ABORT, 'a decided correction is never changed'); END;
CREATE TRIGGER IF NOT EXISTS usage_corrections_delete BEFORE DELETE ON usage_corrections BEGIN SELECT RAISE(ABORT, 'a correction is never deleted'); END;

-- The invoices. A month of an organisation without a row has no invoice yet. Only the status ever changes.
CREATE TABLE IF NOT EXISTS invoices (
    number       INTEGER PRIMARY KEY, -- from 1, without gaps
    org          TEXT NOT NULL,
    start_ns     INTEGER NOT NULL,    -- of the month
    end_ns       INTEGER NOT NULL,
    currency     TEXT NOT NULL,
    status       TEXT NOT NULL,       -- a billing.InvoiceStatus
    rounding     INTEGER NOT NULL,    -- nano-USD, like the next ones: subtotal = lines + rounding = credits + carried + total
    subtotal     INTEGER NOT NULL,
    credits      INTEGER NOT NULL,
    carried      INTEGER NOT NULL,    -- forward to the next invoice
    total        INTEGER NOT NULL,
    llm_cost     BLOB NOT NULL,       -- billing.LLMCost in JSON
    complete     INTEGER NOT NULL,    -- 0 = the grace ended before all sources were complete
    rated_sha256 BLOB NOT NULL,       -- of the usage and the plans that the lines were rated from
    finalised_ns INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS invoices_org ON invoices (org, end_ns);
CREATE TRIGGER IF NOT EXISTS invoices_update
    BEFORE UPDATE OF number, org, start_ns, end_ns, currency, rounding, subtotal, credits, carried, total, llm_cost, complete, rated_sha256, finalised_ns ON invoices
    BEGIN SELECT RAISE(ABORT, 'an invoice is never changed'); END;
CREATE TRIGGER IF NOT EXISTS invoices_delete BEFORE DELETE ON invoices BEGIN SELECT RAISE(ABORT, 'an invoice keeps its number'); END;

CREATE TABLE IF NOT EXISTS invoice_lines (
    number        INTEGER NOT NULL,
    position      INTEGER NOT NULL, -- from 0
    month_ns      INTEGER NOT NULL, -- start of the month of its usage; before the invoice's = late
    item          TEXT NOT NULL,
    namespace     TEXT NOT NULL,    -- '' = not usage
    price_version TEXT NOT NULL,
    tier          INTEGER NOT NULL,
    quantity      TEXT NOT NULL,    -- decimal, because it may have 127 bits
    per           INTEGER NOT NULL,
    unit_price    INTEGER NOT NULL, -- nano-USD, like the amount
    amount        INTEGER NOT NULL,
    PRIMARY KEY (number, position)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS invoice_lines_update BEFORE UPDATE ON invoice_lines BEGIN SELECT RAISE(ABORT, 'an invoice is never changed'); END;
CREATE TRIGGER IF NOT EXISTS invoice_lines_delete BEFORE DELETE ON invoice_lines BEGIN SELECT RAISE(ABORT, 'an invoice is never changed'); END;

-- The parts of credits that invoices have used.
CREATE TABLE IF NOT EXISTS invoice_credits (
    number INTEGER NOT NULL,
    credit TEXT NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (number, credit)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS invoice_credits_update BEFORE UPDATE ON invoice_credits BEGIN SELECT RAISE(ABORT, 'an invoice is never changed'); END;
CREATE TRIGGER IF NOT EXISTS invoice_credits_delete BEFORE DELETE ON invoice_credits BEGIN SELECT RAISE(ABORT, 'an invoice is never changed'); END;

-- The rows of the journal that were applied after their month had an invoice. Every other row is on the invoice of its month.
CREATE TABLE IF NOT EXISTS usage_late (
    namespace   TEXT NOT NULL, -- the key of the row in the journal
    stream      TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    to_seq      INTEGER NOT NULL,
    row_no      INTEGER NOT NULL,
    meter       INTEGER NOT NULL,
    org         TEXT NOT NULL,
    month_ns    INTEGER NOT NULL, -- start of the month of its hour
    invoice     INTEGER NOT NULL, -- number of its invoice; 0 = the next one
    PRIMARY KEY (namespace, stream, incarnation, to_seq, row_no, meter)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS usage_late_waiting ON usage_late (org, month_ns) WHERE invoice = 0;
CREATE TRIGGER IF NOT EXISTS usage_late_update BEFORE UPDATE ON usage_late WHEN OLD.invoice <> 0 BEGIN SELECT RAISE(ABORT, 'late usage is on one invoice'); END;
CREATE TRIGGER IF NOT EXISTS usage_late_delete BEFORE DELETE ON usage_late BEGIN SELECT RAISE(ABORT, 'usage is never deleted'); END;

-- The spend limits of organisations. An organisation without a row has none.
CREATE TABLE IF NOT EXISTS spend_limits (
    org       TEXT PRIMARY KEY,
    amount    INTEGER NOT NULL, -- nano-USD for a calendar month in UTC
    principal TEXT NOT NULL,    -- who set it
    at_ns     INTEGER NOT NULL,
    held_ns   INTEGER NOT NULL  -- since when no job starts; 0 = jobs start
) STRICT, WITHOUT ROWID;

-- The temporary raises of spend limits. They are records, and stay when they have expired.
CREATE TABLE IF NOT EXISTS spend_raises (
    id         TEXT PRIMARY KEY,
    org        TEXT NOT NULL,
    amount     INTEGER NOT NULL, -- nano-USD
    reason     TEXT NOT NULL,
    approver   TEXT NOT NULL,
    operator   INTEGER NOT NULL, -- 1 = the approver is an operator of the cloud
    created_ns INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spend_raises_org ON spend_raises (org, expires_ns);

-- The alerts of spend limits, once for each month and share of the limit.
CREATE TABLE IF NOT EXISTS spend_alerts (
    org      TEXT NOT NULL,
    month_ns INTEGER NOT NULL, -- first nanosecond of the month
    percent  INTEGER NOT NULL,
    spend    INTEGER NOT NULL, -- nano-USD, when the alert was recorded
    amount   INTEGER NOT NULL, -- the limit then, with raises
    at_ns    INTEGER NOT NULL,
    PRIMARY KEY (org, month_ns, percent)
) STRICT, WITHOUT ROWID;
