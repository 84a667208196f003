-- name: enter
-- The first statement of a turn. The lock keeps a reaper of this process
-- waiting until the turn has ended: what the turn claims, the reaper sees.
-- Later statements of the turn begin after the lock is held.
SELECT pg_advisory_xact_lock_shared(1700946274, ($1::bigint & 2147483647)::int),
       EXISTS (SELECT FROM ebb_process WHERE id = $1),
       now(),
       ARRAY (SELECT name FROM ebb_queue WHERE strict AND name = ANY ($2::text[])),
       EXISTS (SELECT FROM ebb_note),
       clock_timestamp()

-- name: clock
SELECT clock_timestamp()

-- name: begin
-- $1 process, $2 and $3 leases, $4 now. What has begun is answered again.
UPDATE ebb_job j
   SET begun = true, leased_at = CASE WHEN begun THEN leased_at ELSE coalesce($4::timestamptz, now()) END
  FROM unnest($2::bigint[], $3::bigint[]) AS ref (seq, epoch)
 WHERE j.seq = ref.seq AND j.epoch = ref.epoch AND j.process = $1 AND (j.begun OR j.due_at <= coalesce($4, now()))
RETURNING j.seq

-- name: release
-- $1 process, $2 now, $3 and $4 leases.
WITH ended AS (
    UPDATE ebb_job j
       SET process = NULL, leased_at = NULL, begun = false, retrying = first_start_at IS NOT NULL
      FROM unnest($3::bigint[], $4::bigint[]) AS ref (seq, epoch)
     WHERE j.seq = ref.seq AND j.epoch = ref.epoch AND j.process = $1
    RETURNING j.seq, j.queue, j.due_at, j.key, j.blocked, /*j.part*/
),
/*noted*/,
/*looked*/,
counted AS (
    INSERT INTO ebb_tally (queue, process, queued, running) SELECT queue, $1, count(*), -count(*) FROM ended GROUP BY queue
)
SELECT seq, queue, due_at, lane IS NULL FROM ended

-- name: end_ordered
-- Leases that ended to queued under a cancel order: the job is cancelled.
WITH gone AS (
    DELETE FROM ebb_job WHERE ordered AND process IS NULL RETURNING *
),
/*gone_freed*/,
/*gone_noted*/,
counted AS (
    INSERT INTO ebb_tally (queue, queued, cancelled) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
)
INSERT INTO ebb_done (/*moved*/, cancelled, ended_at)
SELECT /*moved*/, true, coalesce($1::timestamptz, now()) FROM gone

-- fragment: kinds
-- Those asked for, without the paused.
(ARRAY (SELECT asked FROM unnest($3::text[]) AS asked WHERE NOT EXISTS (SELECT FROM ebb_paused WHERE kind = asked)))::text[]

-- name: claim
-- $1 process, $2 queue, $3 kinds, $4 limit, $5 now. The arrays are the ranges
-- to look at, in their order: by priority first. Each is walked in the order
-- of the index, and only as far as the limit needs.
--
-- Rows are updated where they were locked, which is a quarter cheaper than by
-- their number. One that changed after the statement's snapshot, and is queued
-- again, is locked in a version that the statement cannot see: it is not taken.
-- So they are counted as the statement sees them.
WITH picked AS MATERIALIZED (
    SELECT ARRAY (
        SELECT found.tid
          FROM unnest($6::smallint[], $7::timestamptz[], $8::bigint[], $9::timestamptz[], $10::bigint[])
                   AS range (priority, low_at, low_seq, high_at, high_seq)
         CROSS JOIN LATERAL (
            SELECT ctid AS tid
              FROM ebb_job
             WHERE queue_number = (SELECT number FROM ebb_queue WHERE name = $2) AND priority = range.priority
               AND (due_at, seq) > (range.low_at, range.low_seq)
               AND (due_at, seq) <= (range.high_at, range.high_seq)
               AND due_at <= coalesce($5::timestamptz, now())
               AND lane IS NULL AND blocked IS NULL
               AND process IS NULL AND kind = ANY (/*kinds*/)
               AND (deadline_at IS NULL OR deadline_at >= coalesce($5, now()))
             ORDER BY due_at, seq
             LIMIT $4
               FOR UPDATE SKIP LOCKED) AS found
         WHERE EXISTS (SELECT FROM ebb_process WHERE id = $1)
           AND NOT EXISTS (SELECT FROM ebb_queue WHERE name = $2 AND (paused OR strict))
         LIMIT $4) AS tids
),
counted AS (
    INSERT INTO ebb_tally (queue, process, queued, running)
    SELECT $2, $1, -count(*), count(*) FROM ebb_job WHERE ctid = ANY ((SELECT tids FROM picked)::tid[]) HAVING count(*) > 0
)
UPDATE ebb_job j
   SET process = $1, leased_at = coalesce($5, now()), epoch = epoch + 1, begun = crashes IS NULL OR crashes < 2
 WHERE j.ctid = ANY ((SELECT tids FROM picked)::tid[])
RETURNING /*j.moved*/, j.begun

-- name: look_behind
-- $2 queue, $3 kinds; the arrays are places, one for each priority. What is the
-- first before each of them that a claim would take? It locks nothing.
SELECT range.priority, found.due_at, found.seq
  FROM unnest($1::smallint[], $4::timestamptz[], $5::bigint[]) AS range (priority, at, seq)
 CROSS JOIN LATERAL (
    SELECT due_at, seq
      FROM ebb_job
     WHERE queue_number = (SELECT number FROM ebb_queue WHERE name = $2) AND priority = range.priority
       AND (due_at, seq) <= (range.at, range.seq)
       AND lane IS NULL AND blocked IS NULL
       AND process IS NULL AND kind = ANY (/*kinds*/)
       AND (deadline_at IS NULL OR deadline_at >= now())
     ORDER BY due_at, seq
     LIMIT 1) AS found

-- name: lock_strict
-- Who claims from strict queues waits here for who did before.
SELECT name FROM ebb_queue WHERE name = ANY ($1::text[]) AND strict ORDER BY name FOR UPDATE

-- name: claim_strict
-- $1 process, $2 queue, $3 kinds, $4 limit, $5 now. Only the least due row,
-- and only if nothing runs: the queue's row is locked.
WITH head AS MATERIALIZED (
    SELECT found.seq, found.kind
      FROM generate_series(0, 9) AS level (priority)
     CROSS JOIN LATERAL (
        SELECT seq, kind
          FROM ebb_job
         WHERE queue_number = (SELECT number FROM ebb_queue WHERE name = $2) AND priority = level.priority
           AND due_at <= coalesce($5::timestamptz, now())
           AND lane IS NULL AND blocked IS NULL AND process IS NULL
           AND (deadline_at IS NULL OR deadline_at >= coalesce($5, now()))
         ORDER BY due_at, seq
         LIMIT 1
           FOR UPDATE) AS found
     WHERE EXISTS (SELECT FROM ebb_process WHERE id = $1)
       AND EXISTS (SELECT FROM ebb_queue WHERE name = $2 AND strict AND NOT paused)
       AND (SELECT coalesce(sum(running), 0) FROM ebb_tally WHERE queue = $2) = 0
     LIMIT least($4, 1)
),
picked AS MATERIALIZED (SELECT seq FROM head WHERE kind = ANY (/*kinds*/)),
counted AS (
    INSERT INTO ebb_tally (queue, process, queued, running)
    SELECT $2, $1, -count(*), count(*) FROM picked HAVING count(*) > 0
)
UPDATE ebb_job j
   SET process = $1, leased_at = coalesce($5, now()), epoch = epoch + 1, begun = crashes IS NULL OR crashes < 2
  FROM picked
 WHERE j.seq = picked.seq
RETURNING /*j.moved*/, j.begun

-- name: progress
UPDATE ebb_job
   SET progress = $4::bytea, first_start_at = $5::timestamptz, last_delay = nullif($6::bigint, 0), starts = nullif($7::int, 0),
       attempts = nullif($8::int, 0), waits = nullif($9::int, 0), idle = nullif($10::int, 0), crashes = nullif($11::int, 0),
       free = $12::bytea, held = nullif($13::bigint, 0)
 WHERE seq = $1 AND epoch = $2 AND process = $3

-- name: next_due
-- $1 queues, $2 from when on, for each priority, $3 kinds. Of each queue and priority 64 rows at
-- most are looked at; if all are of other kinds, the last one's due time will
-- do: nothing of these kinds stands before it. Lanes are not looked at, but
-- their looks.
SELECT least(min(found.due_at), min(lane.look_at))
  FROM ebb_queue q
 CROSS JOIN LATERAL (
    SELECT min(part.due_at) AS due_at
      FROM generate_series(0, 9) AS level (priority)
     CROSS JOIN LATERAL (
        SELECT coalesce(min(first.due_at) FILTER (WHERE first.kind = ANY (/*kinds*/)),
                        CASE WHEN count(*) >= 64 THEN max(first.due_at) END) AS due_at
          FROM (SELECT due_at, kind
                  FROM ebb_job
                 WHERE queue_number = q.number AND priority = level.priority AND due_at >= ($2::timestamptz[])[level.priority + 1]
                   AND lane IS NULL AND blocked IS NULL AND process IS NULL
                 ORDER BY due_at
                 LIMIT 64) AS first) AS part) AS found
 CROSS JOIN LATERAL (
    SELECT min(first.look_at) AS look_at
      FROM unnest(/*kinds*/) AS k (kind)
     CROSS JOIN (VALUES (false), (true)) AS r (retrying)
     CROSS JOIN LATERAL (
        SELECT look_at
          FROM ebb_look
         WHERE queue_number = q.number AND kind = k.kind AND retrying = r.retrying AND look_at < /*never*/
         ORDER BY look_at
         LIMIT 1) AS first
     WHERE NOT q.strict) AS lane
 WHERE q.name = ANY ($1::text[]) AND NOT q.paused
