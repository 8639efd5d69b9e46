-- The views whose names and columns are promised to users. routing, routing_target and routing_index are
-- NULL, NULL and 0 in every row, because no job is routed: an enqueue that asks for it is refused.
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
       d.result_schema                        AS result_schema,
       x.parent_id                            AS parent_id,
       x.chain_id                             AS chain_id,
       x.chain_step                           AS chain_step,
       x.chain_config                         AS chain_config,
       CAST(0 AS INTEGER)                     AS provider_error,
       CAST(NULL AS TEXT)                     AS routing,
       CAST(NULL AS TEXT)                     AS routing_target,
       CAST(0 AS INTEGER)                     AS routing_index,
       x.agent_max_iterations                 AS agent_max_iterations,
       CAST(x.agent_max_cost_nano_usd / 1e9 AS REAL) AS agent_max_cost_usd,
       x.agent_iteration_timeout              AS agent_iteration_timeout,
       CAST(coalesce(x.agent_iteration, 0) AS INTEGER) AS agent_iteration,
       CAST((coalesce(h.cost_nano_usd, 0) + coalesce(x.spent_before_nano_usd, 0)) / 1e9 AS REAL) AS agent_total_cost_usd,
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
       CAST(iif(e.started_ns IS NULL, 0, e.attempt) AS INTEGER) AS attempt, -- 0 = it ended no attempt
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
       provider       AS provider,
       {{created_ns}} AS created_at
FROM queue;

CREATE VIEW queue_stats AS
SELECT name            AS queue,
       enqueued_total  AS enqueued,
       completed_total AS completed,
       failed_total    AS failed,
       dead_total      AS dead
FROM queue;

-- The unique keys that are taken. A job holds its key until it settles or, if the client asked for a period,
-- until the period is over. expires_at is the latest time of the release.
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

-- The starts that the rate limits of queues count: fetches is the number of jobs that were fetched in the
-- slice of the window that began at fetched_at.
CREATE VIEW rate_limit_window AS
SELECT q.name                               AS queue,
       {{(slice.value ->> 0)}}              AS fetched_at,
       CAST(slice.value ->> 1 AS INTEGER)   AS fetches
FROM queue q, json_each(q.rate) slice;

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

-- The workers that hold jobs, as far as leases show. An idle worker is not listed. hostname is one that the
-- worker gave when it fetched these jobs, queues are the queues of these jobs, started_at is the start of the
-- first of them, and last_heartbeat is the time of the newest fetch or renewal.
CREATE VIEW workers AS
SELECT worker_id                                              AS id,
       CAST(max(hostname) AS TEXT)                            AS hostname,
       CAST(json_group_array(DISTINCT queue ORDER BY queue) AS TEXT) AS queues,
       {{max(lease_renewed_ns)}}                              AS last_heartbeat,
       {{min(started_ns)}}                                    AS started_at
FROM hot
WHERE state = 'active'
  AND state <> 'pending' AND state <> 'completed' -- so that SQLite uses the index on rare states
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

-- The usage reports that count, also those of deleted jobs. cost_usd is the cost that counts: the reported
-- one, or else the computed one.
CREATE VIEW job_usage AS
SELECT seq                                       AS id,
       job_id,
       queue,
       attempt,
       phase,
       input_tokens,
       output_tokens,
       cache_creation_tokens,
       cache_read_tokens,
       model,
       provider,
       CAST(cost_nano_usd / 1e9 AS REAL)         AS cost_usd,
       {{clock_ns}}                              AS created_at,
       CAST(reported_nano_usd / 1e9 AS REAL)     AS reported_cost_usd,
       CAST(computed_nano_usd / 1e9 AS REAL)     AS computed_cost_usd,
       unpriced,
       tags,
       fairness_key
FROM usage WHERE rejected IS NULL;
-- The usage reports that are kept aside and count nowhere. reason is the cause.
CREATE VIEW rejected_usage AS
SELECT seq                                       AS id,
       job_id,
       queue,
       attempt,
       phase,
       rejected                                  AS reason,
       input_tokens,
       output_tokens,
       cache_creation_tokens,
       cache_read_tokens,
       model,
       provider,
       CAST(reported_nano_usd / 1e9 AS REAL)     AS reported_cost_usd,
       {{clock_ns}}                              AS created_at,
       tags,
       fairness_key
FROM usage WHERE rejected IS NOT NULL;
CREATE VIEW job_iterations AS
SELECT i.id                                 AS id,
       d.id                                 AS job_id,
       CAST(i.id & 1048575 AS INTEGER)      AS iteration,
       i.status                             AS status,
       CAST((SELECT c.checkpoint FROM job_iteration c WHERE c.id = i.id - (i.id & 1048575) + i.checkpoint_in) AS TEXT) AS checkpoint,
       i.trace                              AS trace,
       i.hold_reason                        AS hold_reason,
       i.result                             AS result,
       i.input_tokens                       AS input_tokens,
       i.output_tokens                      AS output_tokens,
       i.cache_creation_tokens              AS cache_creation_tokens,
       i.cache_read_tokens                  AS cache_read_tokens,
       i.model                              AS model,
       i.provider                           AS provider,
       CAST(i.cost_nano_usd / 1e9 AS REAL)  AS cost_usd,
       {{i.created_ns}}                     AS created_at
FROM job_iteration i JOIN document d ON d.number = i.id >> 20;

CREATE VIEW job_scores AS
SELECT s.id             AS id,
       d.id             AS job_id,
       s.dimension      AS dimension,
       s.value          AS value,
       s.scorer         AS scorer,
       {{s.created_ns}} AS created_at
FROM job_score s JOIN document d ON d.number = s.id >> 7;

CREATE VIEW budgets AS
SELECT name                                           AS id,
       CAST(substr(name, 1, instr(name, '/') - 1) AS TEXT) AS scope,
       CAST(substr(name, instr(name, '/') + 1) AS TEXT)    AS target,
       CAST(daily_nano_usd / 1e9 AS REAL)             AS daily_usd,
       CAST(per_job_nano_usd / 1e9 AS REAL)           AS per_job_usd,
       on_exceed,
       {{created_ns}}                                 AS created_at,
       CAST(monthly_nano_usd / 1e9 AS REAL)           AS monthly_usd
FROM budget;

CREATE VIEW providers AS
SELECT name,
       rpm_limit,
       input_tpm_limit,
       output_tpm_limit,
       {{created_ns}} AS created_at
FROM provider;

CREATE VIEW approval_policies AS
SELECT name           AS id,
       label          AS name,
       mode,
       enabled,
       queue,
       tag_key,
       tag_value,
       {{created_ns}} AS created_at,
       CAST(cost_nano_usd_gt / 1e9 AS REAL) AS cost_usd_gt,
       agent_iteration_gt
FROM approval_policy;

CREATE VIEW webhooks AS
SELECT name                  AS id,
       url,
       events,
       CAST(NULL AS TEXT)    AS secret,
       enabled,
       retry_limit,
       {{created_ns}}        AS created_at,
       CAST(NULL AS INTEGER) AS last_status_code,
       CAST(NULL AS TEXT)    AS last_error,
       CAST(NULL AS TEXT)    AS last_delivery_at
FROM webhook;

CREATE VIEW audit_logs AS
SELECT seq          AS id,
       namespace,
       principal,
       role,
       method,
       path,
       status       AS status_code,
       metadata,
       {{clock_ns}} AS created_at
FROM audit;

CREATE VIEW namespaces AS
SELECT name,
       CAST(NULL AS TEXT) AS created_at -- not recorded
FROM namespace;

-- A key's hash is no secret, because a key has 256 random bits. role is the first of the key's roles.
-- last_used_at is NULL, because only the node that uses a key knows the time.
CREATE VIEW api_keys AS
SELECT hash                          AS key_hash,
       name,
       namespace,
       CAST(roles ->> 0 AS TEXT)     AS role,
       queue_scope,
       enabled,
       {{expires_ns}}                AS expires_at,
       {{created_ns}}                AS created_at,
       CAST(NULL AS TEXT)            AS last_used_at,
       id
FROM api_key;

-- The custom roles. The built-in roles have no rows.
CREATE VIEW auth_roles AS
SELECT name,
       permissions,
       {{created_ns}}     AS created_at,
       CAST(NULL AS TEXT) AS updated_at
FROM role;

CREATE VIEW auth_key_roles AS
SELECT k.hash                      AS key_hash,
       CAST(role.value AS TEXT)    AS role_name,
       {{k.created_ns}}            AS created_at
FROM api_key k, json_each(k.roles) role;
