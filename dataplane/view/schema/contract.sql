-- The names others rely on. Columns of what this version cannot do hold their
-- documented default.
CREATE VIEW jobs AS
SELECT d.id                                   AS id,
       h.queue                                AS queue,
       h.state                                AS state,
       d.payload                              AS payload,
       h.priority                             AS priority,
       h.attempt                              AS attempt,
       d.max_retries                          AS max_retries,
       d.retry_backoff                        AS retry_backoff,
       d.retry_base_delay_ms                  AS retry_base_delay_ms,
       d.retry_max_delay_ms                   AS retry_max_delay_ms,
       x.unique_key                           AS unique_key,
       x.batch_id                             AS batch_id,
       h.worker_id                            AS worker_id,
       h.hostname                             AS hostname,
       d.tags                                 AS tags,
       w.progress                             AS progress,
       w.checkpoint                           AS checkpoint,
       w.result                               AS result,
       CAST(NULL AS TEXT)                     AS result_schema,
       x.parent_id                            AS parent_id,
       x.chain_id                             AS chain_id,
       x.chain_step                           AS chain_step,
       x.chain_config                         AS chain_config,
       CAST(0 AS INTEGER)                     AS provider_error,
       CAST(NULL AS TEXT)                     AS routing,
       CAST(NULL AS TEXT)                     AS routing_target,
       CAST(0 AS INTEGER)                     AS routing_index,
       CAST(NULL AS INTEGER)                  AS agent_max_iterations,
       CAST(NULL AS REAL)                     AS agent_max_cost_usd,
       CAST(NULL AS TEXT)                     AS agent_iteration_timeout,
       CAST(0 AS INTEGER)                     AS agent_iteration,
       CAST(coalesce(h.cost_nano_usd, 0) / 1e9 AS REAL) AS agent_total_cost_usd,
       x.hold_reason                          AS hold_reason,
       {{h.lease_expires_ns}}                 AS lease_expires_at,
       {{h.scheduled_ns}}                     AS scheduled_at,
       {{x.expire_ns}}                        AS expire_at,
       {{h.created_ns}}                       AS created_at,
       {{h.started_ns}}                       AS started_at,
       {{h.completed_ns}}                     AS completed_at,
       {{h.failed_ns}}                        AS failed_at
FROM hot h
     JOIN document d ON d.number = h.number
     LEFT JOIN work w ON w.number = h.number
     LEFT JOIN extra x ON x.number = h.number;

CREATE VIEW job_errors AS
SELECT e.id               AS id,
       d.id               AS job_id,
       e.attempt          AS attempt,
       e.error            AS error,
       e.backtrace        AS backtrace,
       {{e.created_ns}}   AS created_at
FROM job_error e JOIN document d ON d.number = e.id >> 7;

CREATE VIEW queues AS
SELECT name,
       paused,
       max_concurrency,
       rate_limit,
       rate_window_ms,
       NULL           AS provider,
       {{created_ns}} AS created_at
FROM queue;

CREATE VIEW queue_stats AS
SELECT name            AS queue,
       enqueued_total  AS enqueued,
       completed_total AS completed,
       failed_total    AS failed,
       dead_total      AS dead
FROM queue;

-- The unique keys that are taken. A key is its job's until the job settles, or
-- until its period is over where that was asked for; expires_at is when it is given
-- back at the latest.
CREATE VIEW unique_locks AS
SELECT h.queue                 AS queue,
       x.unique_key            AS unique_key,
       d.id                    AS job_id,
       {{x.unique_expires_ns}} AS expires_at
FROM extra x
     JOIN hot h ON h.number = x.number
     JOIN document d ON d.number = x.number
WHERE x.unique_expires_ns IS NOT NULL
  AND (x.unique_whole_period = 1 OR h.state NOT IN ('completed', 'dead', 'cancelled'));

CREATE VIEW batches AS
SELECT id,
       total,
       CAST(total - succeeded - failed - cancelled AS INTEGER) AS pending,
       succeeded,
       failed,
       callback_queue,
       callback_payload,
       {{created_ns}}   AS created_at,
       cancelled,
       open,
       {{completed_ns}} AS completed_at,
       parent_id
FROM batch;

-- The workers that hold jobs, as far as their leases tell. One that is idle is not
-- in it, and one that works is with what it works on: hostname as it last gave
-- it for one of these jobs, the queues these are in, when the first of them was
-- started, and when it last fetched one or renewed its lease.
CREATE VIEW workers AS
SELECT worker_id                                              AS id,
       CAST(max(hostname) AS TEXT)                            AS hostname,
       CAST(json_group_array(DISTINCT queue ORDER BY queue) AS TEXT) AS queues,
       {{max(lease_renewed_ns)}}                              AS last_heartbeat,
       {{min(started_ns)}}                                    AS started_at
FROM hot
WHERE state = 'active'
  AND state <> 'pending' AND state <> 'completed' -- so that the index on rare states is used
  AND worker_id IS NOT NULL
GROUP BY worker_id;

CREATE VIEW schedules AS
SELECT id,
       name,
       queue,
       cron,
       timezone,
       payload,
       unique_key,
       max_retries,
       {{last_run_ns}} AS last_run,
       {{next_run_ns}} AS next_run,
       {{created_ns}}  AS created_at,
       priority,
       missed,
       jitter_ms,
       paused
FROM schedule;
