-- What becomes of looks but by claims: see ebb_look in the schema.

-- name: look_behind_marks
-- The lanes, each once: $1 queues, $2 targets, $3 kinds and $4 priorities of the
-- part that is marked, $5 and $6 where, $7 whether to look in any case. Which of
-- them have something up to there that a claim would take? What is locked,
-- somebody else is taking. Where no look of the part stands for anything so
-- early, nothing has come there, and nobody walks over what is gone.
--
-- Looks whose jobs were looked for in vain say so from then on: all that they
-- stand for is farther on, where this process claims.
WITH marked AS MATERIALIZED (
    SELECT a.*, q.number AS queue_number, l.tids, l.look_at
      FROM unnest($1::text[], $2::text[], $3::text[], $4::smallint[], $5::timestamptz[], $6::bigint[], $7::boolean[])
               WITH ORDINALITY AS a (queue, target, kind, priority, at, seq, anyway, n)
      JOIN ebb_queue q ON q.name = a.queue
     CROSS JOIN LATERAL (
        SELECT array_agg(tid) AS tids, min(look_at) AS look_at
          FROM (SELECT l.ctid AS tid, l.look_at
                  FROM ebb_look l
                 WHERE l.target = a.target AND /*in_queue*/ AND l.kind = a.kind AND NOT l.retrying AND l.priority = a.priority
                   AND l.since <= a.at
                 LIMIT 100) AS early) AS l
     WHERE a.anyway OR l.tids IS NOT NULL
),
searched AS MATERIALIZED (
    SELECT a.*,
           coalesce((SELECT true
                       FROM ebb_job
                      WHERE queue_number = a.queue_number
                        AND hashtextextended(lane, hashtextextended(kind, retrying::int)) = hashtextextended(a.target, hashtextextended(a.kind, 0))
                        AND priority = a.priority AND (due_at, seq) <= (a.at, a.seq)
                        AND lane = a.target AND kind = a.kind AND NOT retrying AND lane IS NOT NULL AND blocked IS NULL AND process IS NULL
                        AND (deadline_at IS NULL OR deadline_at >= now())
                      ORDER BY due_at, seq
                      LIMIT 1
                        FOR UPDATE SKIP LOCKED), false) AS found
      FROM marked a
),
doomed AS MATERIALIZED (
    SELECT ctid AS tid FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT unnest(tids) FROM searched WHERE NOT found)) FOR UPDATE SKIP LOCKED
),
cleared AS (DELETE FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT tid FROM doomed))),
looked AS (
    INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
    SELECT look_at, 'infinity', queue_number, priority, false, target, kind FROM searched WHERE NOT found AND tids IS NOT NULL
)
SELECT n FROM searched WHERE found

-- name: gather_looks
-- Makes one look of all that a part has among the next $1 in the order of lanes,
-- from the part of $2 target, $3 queue, $4 kind, $5 retrying and $6 priority on.
-- The one is new: who sees it sees the jobs of all that it stands for, which one
-- of the old ones would not promise. It says how many there were, and of which
-- part the last one is.
WITH looks AS MATERIALIZED (
    SELECT ctid AS tid, *
      FROM ebb_look
     WHERE (target, queue_number, kind, retrying, priority) >= ($2::text, $3::int, $4::text, $5::boolean, $6::smallint)
     ORDER BY target, queue_number, kind, retrying, priority
     LIMIT $1
       FOR UPDATE SKIP LOCKED
),
parts AS MATERIALIZED (
    SELECT array_agg(tid) AS tids, min(look_at) AS look_at, min(since) AS since, queue_number, priority, retrying, target, kind
      FROM looks
     GROUP BY queue_number, priority, retrying, target, kind
    HAVING count(*) > 1
),
cleared AS (DELETE FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT unnest(tids) FROM parts))),
gathered AS (
    INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
    SELECT look_at, since, queue_number, priority, retrying, target, kind FROM parts
)
SELECT (SELECT count(*) FROM looks), target, queue_number, kind, retrying, priority
  FROM looks
 ORDER BY target DESC, queue_number DESC, kind DESC, retrying DESC, priority DESC
 LIMIT 1

-- name: hold
-- $1 process, then $2 queues, $3 targets, $4 whether retries alone, $5 until.
WITH looks AS MATERIALIZED (
    SELECT l.ctid AS tid, l.*, h.until
      FROM unnest($2::text[], $3::text[], $4::boolean[], $5::timestamptz[]) AS h (queue, target, retries, until)
      JOIN ebb_queue q ON q.name = h.queue
      JOIN ebb_look l ON l.target = h.target AND /*in_queue*/
     WHERE l.look_at < h.until AND (l.retrying OR NOT h.retries) AND EXISTS (SELECT FROM ebb_process WHERE id = $1)
       FOR UPDATE OF l SKIP LOCKED
),
cleared AS (DELETE FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT tid FROM looks)))
INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
SELECT max(until), min(since), queue_number, priority, retrying, target, kind FROM looks GROUP BY 3, 4, 5, 6, 7

-- name: wake
-- $1 now, $2 targets, $3 the versions that their gates have if they were
-- swapped, $4 from when on their lanes are looked at. It comes after the swap:
-- who saw the gate shut has committed, or sees it open, or its look is seen here.
WITH looks AS MATERIALIZED (
    SELECT l.ctid AS tid, l.*, greatest(w.open_at, coalesce($1::timestamptz, now())) AS next_at
      FROM unnest($2::text[], $3::bigint[], $4::timestamptz[]) AS w (target, version, open_at)
      JOIN ebb_gate g ON g.target = w.target AND g.version = w.version
      JOIN ebb_look l ON l.target = w.target
     WHERE l.look_at > greatest(w.open_at, coalesce($1, now()))
),
doomed AS MATERIALIZED (
    SELECT ctid AS tid FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT tid FROM looks)) FOR UPDATE SKIP LOCKED
),
cleared AS (DELETE FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT tid FROM doomed)))
INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
SELECT min(next_at), min(since), queue_number, priority, retrying, target, kind FROM looks GROUP BY 3, 4, 5, 6, 7

-- name: wake_stranded
-- Looks that wait for a swap although their gate is open: a job may have come
-- between a swap's wake and its commit. $1 now. They are few among many, and
-- found by the index from one (queue, kind, first attempts or retries) to the
-- next. One probe for the job of each: as EXISTS it was a hash of all jobs.
WITH RECURSIVE groups AS (
    (SELECT queue_number, kind, retrying FROM ebb_look ORDER BY queue_number, kind, retrying LIMIT 1)
    UNION ALL
    SELECT next.*
      FROM groups g
     CROSS JOIN LATERAL (
        SELECT queue_number, kind, retrying
          FROM ebb_look l
         WHERE (l.queue_number, l.kind, l.retrying) > (g.queue_number, g.kind, g.retrying)
         ORDER BY queue_number, kind, retrying
         LIMIT 1) AS next
),
looks AS MATERIALIZED (
    SELECT p.ctid AS tid, p.*, greatest(gate.open_at, coalesce($1::timestamptz, now())) AS next_at
      FROM groups
      JOIN ebb_look p ON p.queue_number = groups.queue_number AND p.kind = groups.kind AND p.retrying = groups.retrying AND p.look_at = /*never*/
      LEFT JOIN ebb_gate gate ON gate.target = p.target
     CROSS JOIN LATERAL (SELECT FROM ebb_job WHERE /*of_part*/ AND (deadline_at IS NULL OR deadline_at >= coalesce($1, now())) LIMIT 1) AS waits
     WHERE coalesce(gate.open_at, '-infinity') < /*never*/
     LIMIT 1000
       FOR UPDATE OF p SKIP LOCKED
),
cleared AS (DELETE FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT tid FROM looks)))
INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
SELECT min(next_at), min(since), queue_number, priority, retrying, target, kind FROM looks GROUP BY 3, 4, 5, 6, 7
