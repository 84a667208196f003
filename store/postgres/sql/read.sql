-- fragment: job
/*moved*/, process, leased_at, begun, blocked, state, cause, config, ended_at, result

-- name: job
SELECT /*job*/ FROM ebb_all_view WHERE seq = $1

-- name: list
SELECT /*job*/ FROM /*from*/ WHERE /*filter*/ ORDER BY seq DESC LIMIT $1

-- name: floor
-- Where a list that may look at so many rows stops.
SELECT seq FROM /*from*/ WHERE /*filter*/ ORDER BY seq DESC OFFSET $1 LIMIT 1

-- name: matching
SELECT count(*) FROM (SELECT FROM /*from*/ WHERE /*filter*/ LIMIT $1) AS part

-- name: above
SELECT seq, unique_key FROM /*from*/ WHERE /*filter*/ ORDER BY seq LIMIT $1

-- name: attempts
SELECT seq, process, started_at, ended_at, due_at, delay, held, retry_after, epoch, start, status, ok, class, reason, error,
       action, cause, held_by, counted, rule, version, stack
  FROM ebb_attempt
 WHERE seq = $1
UNION ALL
SELECT seq, run_by, run_from, run_until, NULL, NULL, run_held, NULL, epoch, run_start, NULL, true, NULL, NULL, NULL,
       NULL, NULL, run_held_by, NULL, NULL, run_version, NULL
  FROM ebb_done
 WHERE seq = $1 AND run_by IS NOT NULL
 ORDER BY 9

-- name: exists
SELECT EXISTS (SELECT FROM ebb_all_view WHERE seq = $1)

-- name: queue_rules
SELECT name, paused, strict, concurrency, rate FROM ebb_queue ORDER BY name

-- name: queues_declared
-- $1 queues, $2 before when they have nothing queued, for each of their ten
-- priorities. Answers the same as of now, 8 bytes each; transactions as short as
-- 100 ms commit in any order.
SELECT q.name, q.paused, q.strict, q.concurrency, q.rate, least(plain.due_at, lane.due_at), plain.heads
  FROM ebb_queue q
 CROSS JOIN LATERAL (
    SELECT min(found.due_at) AS due_at,
           string_agg(timestamptz_send(least(found.due_at, now() - interval '100 milliseconds')), ''::bytea ORDER BY level.priority) AS heads
      FROM generate_series(0, 9) AS level (priority)
     CROSS JOIN LATERAL (
        SELECT coalesce(($2::timestamptz[])[10 * array_position($1::text[], q.name) + level.priority - 9], '-infinity') AS at) AS first
      LEFT JOIN LATERAL (
        SELECT due_at
          FROM ebb_job
         WHERE queue_number = q.number AND priority = level.priority AND due_at >= first.at
           AND lane IS NULL AND blocked IS NULL AND process IS NULL
         ORDER BY due_at
         LIMIT 1) AS found ON true) AS plain
 CROSS JOIN LATERAL (
    SELECT min(found.due_at) AS due_at
      FROM (SELECT DISTINCT queue_number, target, kind, retrying, priority FROM ebb_look WHERE queue_number = q.number) AS p
     CROSS JOIN LATERAL (
        SELECT due_at
          FROM ebb_job
         WHERE /*of_part*/
         ORDER BY due_at
         LIMIT 1) AS found) AS lane

-- name: tallies
SELECT queue, sum(queued)::bigint, sum(running)::bigint, sum(succeeded)::bigint, sum(failed)::bigint, sum(parked)::bigint,
       sum(cancelled)::bigint
  FROM ebb_tally
 GROUP BY queue

-- name: recent
-- What ended at or after $1: at most $2 rows of each table, by its index.
SELECT seq, state, ended_at, CASE WHEN coalesce(starts, 0) > 1 THEN enqueued_at ELSE greatest(enqueued_at, due_at) END, queue, policy, starts
  FROM ((SELECT seq, CASE WHEN cancelled THEN 'cancelled' ELSE 'succeeded' END AS state, ended_at, enqueued_at, due_at, queue, policy, starts
           FROM ebb_done WHERE ended_at >= $1 ORDER BY ended_at DESC LIMIT $2)
        UNION ALL
        (SELECT seq, 'failed', ended_at, enqueued_at, due_at, queue, policy, starts
           FROM ebb_dead WHERE ended_at >= $1 ORDER BY ended_at DESC LIMIT $2)) AS ended
 ORDER BY ended_at DESC, seq DESC
 LIMIT $2

-- name: groups
-- Counts from the differences, the rest from both ends of the group's stretch
-- of the index.
SELECT g.fingerprint, g.kind, g.queue, g.last_class, g.cause, g.n, oldest.ended_at, newest.ended_at, newest.last_error
  FROM (SELECT fingerprint, kind, queue, last_class, cause, sum(n)::bigint AS n
          FROM ebb_group
         WHERE /*filter*/
         GROUP BY 1, 2, 3, 4, 5
        HAVING sum(n) > 0) AS g
 CROSS JOIN LATERAL (
    SELECT ended_at
      FROM ebb_dead d
     WHERE coalesce(d.fingerprint, '') = g.fingerprint AND d.kind = g.kind AND d.queue = g.queue
       AND coalesce(d.last_class, '') = g.last_class AND d.cause = g.cause
     ORDER BY ended_at, seq
     LIMIT 1) AS oldest
 CROSS JOIN LATERAL (
    SELECT ended_at, last_error
      FROM ebb_dead d
     WHERE coalesce(d.fingerprint, '') = g.fingerprint AND d.kind = g.kind AND d.queue = g.queue
       AND coalesce(d.last_class, '') = g.last_class AND d.cause = g.cause
     ORDER BY ended_at DESC, seq DESC
     LIMIT 1) AS newest
 ORDER BY n DESC, newest.ended_at DESC, 1, 2, 3, 4, 5
 LIMIT $1

-- name: groups_of_rows
-- For filters that the differences cannot answer.
SELECT coalesce(fingerprint, '') AS fingerprint, kind, queue, coalesce(last_class, '') AS last_class, cause, count(*) AS n,
       min(ended_at), max(ended_at), (array_agg(last_error ORDER BY ended_at DESC, seq DESC))[1]
  FROM ebb_dead_view
 WHERE /*filter*/
 GROUP BY 1, 2, 3, 4, 5
 ORDER BY n DESC, 8 DESC, 1, 2, 3, 4, 5
 LIMIT $1

-- name: ahead
-- In the plain lane each priority is a stretch of its index; in another, each
-- of its parts is, known by their looks.
WITH self AS MATERIALIZED (SELECT queue_number, lane, priority, due_at, seq FROM ebb_job WHERE seq = $1 AND process IS NULL),
clock AS MATERIALIZED (SELECT coalesce($2::timestamptz, now()) AS now)
SELECT count(*)
  FROM (SELECT
          FROM self
         CROSS JOIN clock
         CROSS JOIN generate_series(0, 9) AS level (priority)
         CROSS JOIN LATERAL (
            SELECT
              FROM ebb_job other
             WHERE self.lane IS NULL
               AND other.queue_number = self.queue_number AND other.priority = level.priority AND other.due_at <= clock.now
               AND (level.priority < self.priority OR (other.due_at, other.seq) < (self.due_at, self.seq))
               AND other.lane IS NULL AND other.blocked IS NULL AND other.process IS NULL
               AND (other.deadline_at IS NULL OR other.deadline_at >= clock.now)
             LIMIT $3) AS before
         WHERE level.priority <= self.priority
        UNION ALL
        SELECT
          FROM self
         CROSS JOIN clock
         CROSS JOIN LATERAL (
            SELECT DISTINCT queue_number, target, kind, retrying, priority
              FROM ebb_look
             WHERE target = self.lane AND queue_number = self.queue_number AND priority <= self.priority) AS p
         CROSS JOIN LATERAL (
            SELECT
              FROM ebb_job
             WHERE /*of_part*/ AND due_at <= clock.now AND (priority, due_at, seq) < (self.priority, self.due_at, self.seq)
               AND (deadline_at IS NULL OR deadline_at >= clock.now)
             LIMIT $3) AS before
         LIMIT $3) AS part
