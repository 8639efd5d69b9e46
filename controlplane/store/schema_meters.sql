-- Carries over a database whose rows of usage have a column for each meter. It runs once, after schema_members.sql.
BEGIN IMMEDIATE;
ALTER TABLE usage_journal RENAME TO usage_journal_wide;
DROP TRIGGER usage_journal_update;
DROP TRIGGER usage_journal_delete;
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
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 1, from_seq, applied_ns, hour_ns, queue, model, provider, reports
    FROM usage_journal_wide WHERE reports <> 0;
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 2, from_seq, applied_ns, hour_ns, queue, model, provider, rejected_reports
    FROM usage_journal_wide WHERE rejected_reports <> 0;
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 3, from_seq, applied_ns, hour_ns, queue, model, provider, input_tokens
    FROM usage_journal_wide WHERE input_tokens <> 0;
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 4, from_seq, applied_ns, hour_ns, queue, model, provider, output_tokens
    FROM usage_journal_wide WHERE output_tokens <> 0;
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 5, from_seq, applied_ns, hour_ns, queue, model, provider, cache_creation_tokens
    FROM usage_journal_wide WHERE cache_creation_tokens <> 0;
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 6, from_seq, applied_ns, hour_ns, queue, model, provider, cache_read_tokens
    FROM usage_journal_wide WHERE cache_read_tokens <> 0;
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 7, from_seq, applied_ns, hour_ns, queue, model, provider, cost_nano_usd
    FROM usage_journal_wide WHERE cost_nano_usd <> 0;
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 8, from_seq, applied_ns, hour_ns, queue, model, provider, requests
    FROM usage_journal_wide WHERE requests <> 0;
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 9, from_seq, applied_ns, hour_ns, queue, model, provider, request_bytes
    FROM usage_journal_wide WHERE request_bytes <> 0;
INSERT INTO usage_journal SELECT namespace, stream, incarnation, to_seq, row_no, 10, from_seq, applied_ns, hour_ns, queue, model, provider, response_bytes
    FROM usage_journal_wide WHERE response_bytes <> 0;
DROP TABLE usage_journal_wide;
CREATE TRIGGER usage_journal_update BEFORE UPDATE ON usage_journal BEGIN SELECT RAISE(ABORT, 'usage is never changed'); END;
CREATE TRIGGER usage_journal_delete BEFORE DELETE ON usage_journal BEGIN SELECT RAISE(ABORT, 'usage is never deleted'); END;
ALTER TABLE usage_hourly RENAME TO usage_hourly_wide;
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
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 1, part, reports FROM usage_hourly_wide WHERE reports <> 0;
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 2, part, rejected_reports FROM usage_hourly_wide WHERE rejected_reports <> 0;
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 3, part, input_tokens FROM usage_hourly_wide WHERE input_tokens <> 0;
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 4, part, output_tokens FROM usage_hourly_wide WHERE output_tokens <> 0;
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 5, part, cache_creation_tokens FROM usage_hourly_wide WHERE cache_creation_tokens <> 0;
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 6, part, cache_read_tokens FROM usage_hourly_wide WHERE cache_read_tokens <> 0;
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 7, part, cost_nano_usd FROM usage_hourly_wide WHERE cost_nano_usd <> 0;
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 8, part, requests FROM usage_hourly_wide WHERE requests <> 0;
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 9, part, request_bytes FROM usage_hourly_wide WHERE request_bytes <> 0;
INSERT INTO usage_hourly SELECT namespace, hour_ns, queue, model, provider, 10, part, response_bytes FROM usage_hourly_wide WHERE response_bytes <> 0;
DROP TABLE usage_hourly_wide;
COMMIT;
