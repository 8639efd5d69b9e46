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
       NULL                                   AS unique_key,
       NULL                                   AS batch_id,
       h.worker_id                            AS worker_id,
       h.hostname                             AS hostname,
       d.tags                                 AS tags,
       w.progress                             AS progress,
       w.checkpoint                           AS checkpoint,
       w.result                               AS result,
       NULL                                   AS result_schema,
       NULL                                   AS parent_id,
       NULL                                   AS chain_id,
       NULL                                   AS chain_step,
       NULL                                   AS chain_config,
       0                                      AS provider_error,
       NULL                                   AS routing,
       NULL                                   AS routing_target,
       0                                      AS routing_index,
       NULL                                   AS agent_max_iterations,
       NULL                                   AS agent_max_cost_usd,
       NULL                                   AS agent_iteration_timeout,
       0                                      AS agent_iteration,
       coalesce(h.cost_nano_usd, 0) / 1e9     AS agent_total_cost_usd,
       NULL                                   AS hold_reason,
       {{h.lease_expires_ns}}                 AS lease_expires_at,
       {{h.scheduled_ns}}                     AS scheduled_at,
       NULL                                   AS expire_at,
       {{h.created_ns}}                       AS created_at,
       {{h.started_ns}}                       AS started_at,
       {{h.completed_ns}}                     AS completed_at,
       {{h.failed_ns}}                        AS failed_at
FROM hot h
     JOIN document d ON d.number = h.number
     LEFT JOIN work w ON w.number = h.number;

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
       NULL           AS rate_limit,
       NULL           AS rate_window_ms,
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
