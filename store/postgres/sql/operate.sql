-- fragment: revive
-- Queued again: fresh attempts, due now, no deadline that has passed. What was
-- parked because its target was down goes on with the attempts it had. One with
-- a key is blocked until its note is worked off.
added AS (
    INSERT INTO ebb_job (seq, due_at, enqueued_at, deadline_at, starts, epoch, priority, queue, kind, policy, args, target, key, key_rule,
                         unique_key, batch, trace, last_class, last_error, fingerprint, version, progress, queue_number, lane, blocked,
                         attempts, waits, idle, crashes, free, first_start_at, last_delay, retrying)
    SELECT seq, now, enqueued_at, CASE WHEN deadline_at >= now THEN deadline_at END, starts, epoch, priority, queue, kind, policy,
           args, target, key, key_rule, unique_key, batch, trace, last_class, last_error, fingerprint, version, progress,
           q.number, /*lane*/, CASE WHEN key IS NOT NULL THEN true END,
           CASE WHEN /*goes_on*/ THEN attempts END, CASE WHEN /*goes_on*/ THEN waits END, CASE WHEN /*goes_on*/ THEN idle END,
           CASE WHEN /*goes_on*/ THEN crashes END, CASE WHEN /*goes_on*/ THEN free END,
           CASE WHEN /*goes_on*/ THEN first_start_at END, CASE WHEN /*goes_on*/ THEN last_delay END,
           /*goes_on*/ AND first_start_at IS NOT NULL
      FROM gone JOIN ebb_queue q ON q.name = gone.queue CROSS JOIN clock
    RETURNING seq, due_at, blocked, /*part*/
),
looked AS (
    INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
    SELECT min(due_at), min(due_at), /*part*/ FROM added WHERE lane IS NOT NULL AND blocked IS NULL GROUP BY /*part*/
),
/*gone_noted*/
SELECT seq FROM added

-- fragment: goes_on
coalesce(cause = 'target_down', false)

-- fragment: gone_noted
noted AS (
    INSERT INTO ebb_note (seq, park, queue, key) SELECT seq, false, queue, key FROM gone WHERE key IS NOT NULL
)

-- fragment: gone_freed
freed AS (
    DELETE FROM ebb_unique u USING gone WHERE gone.unique_key IS NOT NULL AND u.key = gone.unique_key
)

-- fragment: clock
clock AS MATERIALIZED (SELECT coalesce($1::timestamptz, now()) AS now)

-- fragment: ungrouped
ungrouped AS (
    INSERT INTO ebb_group (fingerprint, kind, queue, last_class, cause, n)
    SELECT coalesce(fingerprint, ''), kind, queue, coalesce(last_class, ''), cause, -count(*) FROM gone GROUP BY 1, 2, 3, 4, 5
)

-- name: revive_dead
WITH /*clock*/,
gone AS (DELETE FROM ebb_dead WHERE seq = ANY ($2::bigint[]) RETURNING *),
counted AS (
    INSERT INTO ebb_tally (queue, failed, queued) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
),
/*ungrouped*/,
/*revive*/

-- name: revive_parked
WITH /*clock*/,
gone AS (DELETE FROM ebb_parked WHERE seq = ANY ($2::bigint[]) RETURNING *),
counted AS (
    INSERT INTO ebb_tally (queue, parked, queued) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
),
/*revive*/

-- name: revive_config
-- What was parked under another config than $3, of the kinds $2.
WITH /*clock*/,
gone AS (
    DELETE FROM ebb_parked WHERE cause = 'config' AND kind = ANY ($2::text[]) AND coalesce(config, '') <> $3 RETURNING *
),
counted AS (
    INSERT INTO ebb_tally (queue, parked, queued) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
),
/*revive*/

-- name: order_cancel
-- A running job's process is told; a queued one is taken by end_ordered.
UPDATE ebb_job SET ordered = true WHERE seq = $1 RETURNING process IS NOT NULL

-- name: cancel_parked
WITH /*clock*/,
gone AS (DELETE FROM ebb_parked WHERE seq = $2 RETURNING *),
/*gone_freed*/,
/*gone_noted*/,
counted AS (INSERT INTO ebb_tally (queue, parked, cancelled) SELECT queue, -1, 1 FROM gone)
INSERT INTO ebb_done (/*moved*/, cancelled, ended_at)
SELECT /*moved*/, true, now FROM gone, clock

-- name: state
SELECT state FROM ebb_all_view WHERE seq = $1

-- name: due_now
-- Written anew instead of updated: a claim that saw the old row must find it
-- gone (see claim).
WITH gone AS (DELETE FROM ebb_job WHERE seq = $1 AND process IS NULL RETURNING *),
added AS (
    INSERT INTO ebb_job (/*moved*/, ordered, queue_number, lane, blocked, retrying)
    SELECT seq, least(due_at, coalesce($2::timestamptz, now())), /*after_due*/, ordered, queue_number, lane, blocked, retrying FROM gone
    RETURNING seq, due_at, blocked, /*part*/
),
looked AS (
    INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
    SELECT greatest(due_at, coalesce($2, now())), due_at, /*part*/ FROM added WHERE lane IS NOT NULL AND blocked IS NULL
)
SELECT seq FROM added

-- name: dead_key
SELECT unique_key FROM ebb_dead WHERE seq = $1 FOR UPDATE

-- name: record
INSERT INTO ebb_audit (at, actor, act, what, detail) VALUES (coalesce($1::timestamptz, now()), $2, $3, $4, $5)

-- name: audit
SELECT at, actor, act, what, detail FROM ebb_audit ORDER BY id DESC LIMIT $1

-- name: pause_queue
INSERT INTO ebb_queue (name, paused) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused

-- name: strict
SELECT strict FROM ebb_queue WHERE name = $1

-- name: limit_queue
INSERT INTO ebb_queue (name, concurrency, rate) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET concurrency = excluded.concurrency, rate = excluded.rate

-- name: rearrange
-- The jobs of a queue go where they now belong: nobody else writes jobs
-- meanwhile (see lock_claims), so they may be updated in place. $1 the queue,
-- $2 now, NULL = none: then the looks are at the due times.
WITH moved AS (
    UPDATE ebb_job j
       SET lane = /*lane*/
      FROM ebb_queue q
     WHERE q.name = $1 AND j.queue_number = q.number AND lane IS DISTINCT FROM /*lane*/
    RETURNING j.process, j.due_at, j.blocked, /*j.part*/
)
INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
SELECT greatest(min(due_at), $2::timestamptz), min(due_at), /*part*/
  FROM moved
 WHERE lane IS NOT NULL AND blocked IS NULL AND process IS NULL
 GROUP BY /*part*/

-- name: forget_looks
-- Of lanes that the queue no longer has.
DELETE FROM ebb_look l
 USING ebb_queue q
 WHERE q.name = $1 AND l.queue_number = q.number
   AND (q.strict OR q.concurrency = 0 AND q.rate = 0 AND l.target = 'queue:' || q.name)

-- name: pause_kind
INSERT INTO ebb_paused (kind) VALUES ($1) ON CONFLICT DO NOTHING

-- name: resume_kind
DELETE FROM ebb_paused WHERE kind = $1

-- name: paused_kinds
SELECT kind FROM ebb_paused ORDER BY kind

-- name: lock_claims
-- Waits for whoever writes jobs, and keeps others waiting.
LOCK TABLE ebb_job IN SHARE ROW EXCLUSIVE MODE

-- name: strict_queue
INSERT INTO ebb_queue (name, strict) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET strict = excluded.strict

-- name: start_redrive
INSERT INTO ebb_redrive (created_at, rate, actor, filter)
VALUES (coalesce($1::timestamptz, now()), $2, $3, $4)
RETURNING id, created_at

-- fragment: redrive
id, created_at, done_at, moved, cursor, rate, actor, filter

-- name: redrive
SELECT /*redrive*/ FROM ebb_redrive WHERE id = $1 FOR UPDATE

-- name: redrives
SELECT /*redrive*/
  FROM ebb_redrive
 ORDER BY done_at IS NOT NULL, CASE WHEN done_at IS NULL THEN id ELSE -id END
 LIMIT $1

-- name: step_redrive
UPDATE ebb_redrive
   SET moved = $2, cursor = $3, done_at = CASE WHEN $4::boolean THEN coalesce($5::timestamptz, now()) END
 WHERE id = $1
RETURNING done_at
