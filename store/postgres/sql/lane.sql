-- Claims from lanes, and the looks that say which lanes are worth one. See
-- ebb_look in the schema for the rule that keeps a job from being stranded: a
-- look goes only in a statement that sees everything which that look stands for.

-- fragment: of_part
queue_number = p.queue_number AND priority = p.priority
           AND hashtextextended(lane, hashtextextended(kind, retrying::int))
               = hashtextextended(p.target, hashtextextended(p.kind, p.retrying::int))
           AND lane = p.target AND kind = p.kind AND retrying = p.retrying
           AND lane IS NOT NULL AND blocked IS NULL AND process IS NULL

-- fragment: in_queue
-- Looks of a lane are found by target. The sum keeps the planner from the index
-- by due time, which begins with the queue and has all of its looks.
l.queue_number + 0 = q.number

-- fragment: startable
(deadline_at IS NULL OR deadline_at >= (SELECT now FROM clock))

-- fragment: lease
SET process = $1, leased_at = (SELECT now FROM clock), epoch = epoch + 1

-- fragment: waits
-- Whether a row is among those that wait, which are in order: it is looked for
-- as in a book. By = ANY each of thousands was compared with thousands.
((SELECT waiting FROM chosen)::tid[])[width_bucket(ctid, (SELECT waiting FROM chosen)::tid[])] IS NOT DISTINCT FROM ctid

-- fragment: left
-- What is left of a part p without p.rows: when the first of it is due that may
-- still start; never, if none may and some wait; NULL if none wait.
coalesce((SELECT due_at
            FROM ebb_job
           WHERE /*of_part*/ AND ctid <> ALL (p.rows) AND /*startable*/
           ORDER BY due_at, seq
           LIMIT 1),
         (SELECT /*never*/ FROM ebb_job WHERE /*of_part*/ AND ctid <> ALL (p.rows) LIMIT 1))

-- fragment: left_further
-- The same beyond where p.low_at and p.low_seq stand; no part is empty by that.
(SELECT due_at
   FROM ebb_job
  WHERE /*of_part*/ AND (due_at, seq) > (p.low_at, p.low_seq) AND ctid <> ALL (p.rows) AND /*startable*/
  ORDER BY due_at, seq
  LIMIT 1)

-- name: claim_named
-- $1 process, $2 now, $3 kinds; then the lanes, each once: $4 queues, $5
-- targets, $6 most first attempts, $7 retries, $8 most in all, $9 how many
-- begin; and where to begin among the first attempts of one kind and priority.
-- Which parts a lane has is known by its looks.
WITH RECURSIVE clock AS MATERIALIZED (SELECT coalesce($2::timestamptz, now()) AS now),
-- From one part of a lane to the next by the index: a part may have a look for
-- each of many thousand enqueues.
found AS (
    SELECT a.n, a.most, a.begins, a.firsts, a.retries, a.low_kind, a.low_priority, a.low_at, a.low_seq,
           l.queue_number, l.target, l.kind, l.retrying, l.priority
      FROM unnest($4::text[], $5::text[], $6::int[], $7::int[], $8::int[], $9::int[],
                  $10::text[], $11::smallint[], $12::timestamptz[], $13::bigint[])
               WITH ORDINALITY AS a (queue, target, firsts, retries, most, begins, low_kind, low_priority, low_at, low_seq, n)
      JOIN ebb_queue q ON q.name = a.queue AND NOT q.paused AND NOT q.strict
     CROSS JOIN LATERAL (
        SELECT *
          FROM ebb_look
         WHERE target = a.target AND queue_number = q.number
         ORDER BY target, queue_number, kind, retrying, priority
         LIMIT 1) AS l
     WHERE EXISTS (SELECT FROM ebb_process WHERE id = $1)
    UNION ALL
    SELECT f.n, f.most, f.begins, f.firsts, f.retries, f.low_kind, f.low_priority, f.low_at, f.low_seq,
           l.queue_number, l.target, l.kind, l.retrying, l.priority
      FROM found f
     CROSS JOIN LATERAL (
        SELECT *
          FROM ebb_look
         WHERE target = f.target AND queue_number = f.queue_number AND (kind, retrying, priority) > (f.kind, f.retrying, f.priority)
         ORDER BY target, queue_number, kind, retrying, priority
         LIMIT 1) AS l
),
parts AS MATERIALIZED (
    SELECT f.n, f.most, f.begins, f.queue_number, f.target, f.kind, f.retrying, f.priority,
           CASE WHEN f.retrying THEN f.retries ELSE f.firsts END AS own,
           CASE WHEN f.kind = f.low_kind AND f.priority = f.low_priority AND NOT f.retrying THEN f.low_at ELSE '-infinity' END AS low_at,
           f.low_seq, l.tids, l.look_at, l.since
      FROM found f
     CROSS JOIN LATERAL (
        SELECT array_agg(tid) AS tids, min(look_at) AS look_at, min(since) AS since
          FROM (SELECT ctid AS tid, look_at, since
                  FROM ebb_look
                 WHERE target = f.target AND queue_number = f.queue_number
                   AND kind = f.kind AND retrying = f.retrying AND priority = f.priority
                 LIMIT 64) AS few) AS l
     WHERE f.kind = ANY (/*kinds*/) AND least(f.most, CASE WHEN f.retrying THEN f.retries ELSE f.firsts END) > 0
),
-- By itself: where rows stands in one query with what is made of it, the
-- planner looks for them once for each place.
locked AS MATERIALIZED (
    SELECT p.*,
           ARRAY (SELECT ctid
                    FROM ebb_job
                   WHERE /*of_part*/ AND (due_at, seq) > (p.low_at, p.low_seq)
                     AND due_at <= (SELECT now FROM clock) AND /*startable*/
                   ORDER BY due_at, seq
                   LIMIT least(p.most, p.own)
                     FOR UPDATE SKIP LOCKED) AS rows
      FROM parts p
),
got AS MATERIALIZED (
    SELECT *, cardinality(rows) AS found, count(*) OVER (PARTITION BY n) = 1 AND (begins = 0 OR begins >= cardinality(rows)) AS whole
      FROM locked
),
-- Of a lane that has one part, which begins as a whole or not at all, all that
-- is found is taken: there is nothing to rank.
ranked AS MATERIALIZED (
    SELECT tid, NOT suspect AND sum((NOT suspect)::int) OVER line <= begins AS begins
      FROM (SELECT *, row_number() OVER line AS place
              FROM (SELECT n, most, begins, own, got.priority, tid, j.due_at, j.seq, coalesce(j.crashes, 0) >= 2 AS suspect,
                           row_number() OVER (PARTITION BY n, got.retrying ORDER BY got.priority, j.due_at, j.seq) AS rank
                      FROM got CROSS JOIN unnest(rows) AS r (tid) JOIN ebb_job j ON j.ctid = r.tid
                     WHERE NOT whole) AS one
             WHERE rank <= own
            WINDOW line AS (PARTITION BY n ORDER BY priority, due_at, seq)) AS placed
     WHERE place <= most
    WINDOW line AS (PARTITION BY n ORDER BY priority, due_at, seq)
),
chosen AS MATERIALIZED (
    SELECT ARRAY (SELECT unnest(rows) FROM got WHERE whole UNION ALL SELECT tid FROM ranked) AS rows,
           ARRAY (SELECT unnest(rows) FROM got WHERE whole AND begins = 0 UNION ALL SELECT tid FROM ranked WHERE NOT begins ORDER BY 1) AS waiting,
           NOT EXISTS (SELECT FROM got WHERE whole AND begins > 0 UNION ALL SELECT FROM ranked WHERE begins) AS all_wait
),
-- Counted as this statement sees them, and so as it updates them: one that
-- changed hands while it was being locked is locked, and not taken.
counted AS (
    INSERT INTO ebb_tally (queue, process, queued, running)
    SELECT queue, $1, -count(*), count(*) FROM ebb_job WHERE ctid = ANY ((SELECT rows FROM chosen)::tid[]) GROUP BY queue
),
-- Parts of which all that is due was taken, or that have too many looks.
ended AS MATERIALIZED (
    SELECT p.*, CASE WHEN spent THEN /*left*/ ELSE look_at END AS next_at
      FROM (SELECT *, found < least(most, own)
                      AND sum(found) OVER (PARTITION BY n) <= most
                      AND sum(found) OVER (PARTITION BY n, retrying) <= own AS spent
              FROM got) AS p
     WHERE spent OR cardinality(tids) > 8
),
over AS MATERIALIZED (
    SELECT * FROM ended WHERE NOT spent OR next_at IS NULL OR next_at > (SELECT now FROM clock)
),
doomed AS MATERIALIZED (
    SELECT ctid AS tid FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT unnest(tids) FROM over)) FOR UPDATE SKIP LOCKED
),
cleared AS (DELETE FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT tid FROM doomed))),
looked AS (
    INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
    SELECT CASE WHEN spent THEN greatest(next_at, look_at) ELSE next_at END, since, queue_number, priority, retrying, target, kind
      FROM over
     WHERE next_at IS NOT NULL
)
UPDATE ebb_job j
   /*lease*/,
       begun = (crashes IS NULL OR crashes < 2)
               AND NOT CASE WHEN (SELECT all_wait FROM chosen) THEN true ELSE /*waits*/ END
 WHERE j.ctid = ANY ((SELECT rows FROM chosen)::tid[])
RETURNING /*j.moved*/, j.begun

-- name: claim_further
-- Claims by name of lanes that had one part when they were last looked at,
-- first attempts of one kind and priority: most of a backlog goes this short
-- way. $1 process, $2 queue, $3 kinds; then the lanes, each once: $4 targets,
-- $5 their parts' kinds and $6 priorities, $7 and $8 where the last claim
-- ended, $9 most, $10 how many begin.
--
-- It leaves the looks alone, which is allowed: they may be too early. A lane
-- that has another part too, by its looks, is told: it is asked as a whole the
-- next time. These are asked for in the order of the index by lane: for EXISTS
-- the planner may take the one by due time, where looks are many, and read all
-- of the queue's for each lane.
WITH lanes AS MATERIALIZED (
    SELECT a.target, a.begins,
           coalesce((SELECT true
                       FROM ebb_look l
                      WHERE l.target = a.target AND l.queue_number = (SELECT number FROM ebb_queue WHERE name = $2)
                        AND (l.kind, l.retrying, l.priority) < (a.kind, false, a.priority)
                      ORDER BY l.target, l.queue_number, l.kind, l.retrying, l.priority
                      LIMIT 1),
                    (SELECT true
                       FROM ebb_look l
                      WHERE l.target = a.target AND l.queue_number = (SELECT number FROM ebb_queue WHERE name = $2)
                        AND (l.kind, l.retrying, l.priority) > (a.kind, false, a.priority)
                      ORDER BY l.target, l.queue_number, l.kind, l.retrying, l.priority
                      LIMIT 1), false) AS mixed,
           ARRAY (SELECT ctid
                    FROM ebb_job
                   WHERE queue_number = (SELECT number FROM ebb_queue WHERE name = $2 AND NOT paused AND NOT strict)
                     AND hashtextextended(lane, hashtextextended(kind, retrying::int))
                         = hashtextextended(a.target, hashtextextended(a.kind, 0))
                     AND priority = a.priority AND (due_at, seq) > (a.low_at, a.low_seq) AND due_at <= now()
                     AND lane = a.target AND kind = a.kind AND NOT retrying AND lane IS NOT NULL AND blocked IS NULL AND process IS NULL
                     AND (deadline_at IS NULL OR deadline_at >= now())
                   ORDER BY due_at, seq
                   LIMIT a.most
                     FOR UPDATE SKIP LOCKED) AS rows
      FROM unnest($4::text[], $5::text[], $6::smallint[], $7::timestamptz[], $8::bigint[], $9::int[], $10::int[])
               AS a (target, kind, priority, low_at, low_seq, most, begins)
     WHERE a.kind = ANY (/*kinds*/) AND EXISTS (SELECT FROM ebb_process WHERE id = $1)
),
chosen AS MATERIALIZED (
    SELECT ARRAY (SELECT unnest(rows) FROM lanes) AS rows,
           ARRAY (SELECT unnest(rows[begins + 1:]) FROM lanes WHERE begins < cardinality(rows) ORDER BY 1) AS waiting,
           NOT EXISTS (SELECT FROM lanes WHERE begins < cardinality(rows)) AS all_begin,
           ARRAY (SELECT target FROM lanes WHERE mixed) AS mixed,
           EXISTS (SELECT FROM lanes WHERE mixed) AS any_mixed
),
counted AS (
    INSERT INTO ebb_tally (queue, process, queued, running)
    SELECT $2, $1, -count(*), count(*) FROM ebb_job WHERE ctid = ANY ((SELECT rows FROM chosen)::tid[]) HAVING count(*) > 0
)
UPDATE ebb_job j
   SET process = $1, leased_at = now(), epoch = epoch + 1,
       begun = (crashes IS NULL OR crashes < 2)
               AND CASE WHEN (SELECT all_begin FROM chosen) THEN true ELSE NOT (/*waits*/) END
 WHERE j.ctid = ANY ((SELECT rows FROM chosen)::tid[])
RETURNING /*j.moved*/, j.begun,
          CASE WHEN (SELECT any_mixed FROM chosen) THEN j.lane = ANY ((SELECT mixed FROM chosen)::text[]) ELSE false END

-- name: discover
-- $1 process, $2 now, $3 kinds, $4 queue, $5 most lanes, $6 first attempts and
-- $7 retries of each, $8 most in all, $9 how many looks it takes away at most;
-- each lane has its share of those. With each job, or in a row without one, it
-- says whether a lane has more than that: then gather_looks makes few of them.
-- Then the lanes that this process claims by name, each once: $10 targets, $11
-- kinds and $12 priorities of the part that is marked, $13 and $14 where, $15
-- whether claims by name take all that they ask for: then the lane's looks are
-- put off. A part is looked through from its mark on, unless a look stands for
-- something earlier; such a part keeps a look, for what a look cannot tell.
--
-- Looks are locked, not rows, until it is clear which rows are taken: of many
-- lanes each gives a few. How many are looked at follows from how many lanes
-- there are, four times of what each would give if all gave the same.
WITH clock AS MATERIALIZED (SELECT coalesce($2::timestamptz, now()) AS now),
q AS MATERIALIZED (
    SELECT number FROM ebb_queue WHERE name = $4 AND NOT paused AND NOT strict AND EXISTS (SELECT FROM ebb_process WHERE id = $1)
),
lanes AS MATERIALIZED (
    SELECT DISTINCT q.number, l.target
      FROM q
     CROSS JOIN unnest(/*kinds*/) AS k (kind)
     CROSS JOIN (VALUES (false, $6::int), (true, $7::int)) AS r (retrying, most)
     CROSS JOIN LATERAL (
        SELECT target
          FROM ebb_look
         WHERE queue_number = q.number AND kind = k.kind AND retrying = r.retrying AND look_at <= (SELECT now FROM clock)
         ORDER BY look_at, target
         LIMIT 2 * $5::int + 16
           FOR UPDATE SKIP LOCKED) AS l
     WHERE r.most > 0
),
-- A lane may have a look for each of many thousand enqueues: they are gathered
-- as they are locked.
share AS MATERIALIZED (SELECT greatest(8, $9 / greatest(1, count(*)))::int AS most FROM lanes),
looked_at AS MATERIALIZED (
    SELECT l.queue_number, l.target, l.kind, l.retrying, l.priority, array_agg(l.tid) AS tids, min(l.since) AS since,
           min(min(l.look_at)) OVER (PARTITION BY l.target, l.kind, l.retrying) AS look_at,
           min(min(l.look_at)) OVER (PARTITION BY l.target) AS lane_at,
           sum(count(*)) OVER (PARTITION BY l.target) AS looks
      FROM lanes q
     CROSS JOIN LATERAL (
        SELECT l.ctid AS tid, l.*
          FROM ebb_look l
         WHERE l.target = q.target AND /*in_queue*/
           AND l.kind = ANY (/*kinds*/) AND CASE WHEN l.retrying THEN $7 ELSE $6 END > 0
         LIMIT (SELECT most FROM share)
           FOR UPDATE SKIP LOCKED) AS l
     GROUP BY l.queue_number, l.target, l.kind, l.retrying, l.priority
),
-- Each part with its lane's mark: sorted together, since a join would compare each
-- part with each mark.
marked AS MATERIALIZED (
    SELECT *
      FROM (SELECT queue_number, target, kind, retrying, priority, tids, since, look_at, lane_at, looks,
                   min(mark_kind) OVER lane AS mark_kind, min(mark_priority) OVER lane AS mark_priority,
                   min(mark_at) OVER lane AS mark_at, min(mark_seq) OVER lane AS mark_seq, bool_or(served) OVER lane AS served
              FROM (SELECT *, NULL::text AS mark_kind, NULL::smallint AS mark_priority, NULL::timestamptz AS mark_at,
                           NULL::bigint AS mark_seq, NULL::boolean AS served
                      FROM looked_at
                    UNION ALL
                    SELECT NULL, target, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, kind, priority, at, seq, served
                      FROM unnest($10::text[], $11::text[], $12::smallint[], $13::timestamptz[], $14::bigint[], $15::boolean[])
                               AS mark (target, kind, priority, at, seq, served)) AS together
            WINDOW lane AS (PARTITION BY target)) AS paired
     WHERE queue_number IS NOT NULL
),
parts AS MATERIALIZED (
    SELECT row_number() OVER () AS part_n, p.*, coalesce(g.room, 2147483647) AS room,
           CASE WHEN g.open_at > (SELECT now FROM clock) THEN g.open_at
                WHEN g.room <= 0 OR p.served THEN (SELECT now FROM clock) + /*rest*/ END AS again,
           CASE WHEN NOT p.retrying AND p.kind = p.mark_kind AND p.priority = p.mark_priority AND p.since > p.mark_at
                THEN p.mark_at ELSE '-infinity' END AS low_at,
           coalesce(p.mark_seq, 0) AS low_seq
      FROM marked p
      -- One probe for each part: while gates seem few, the planner would read all
      -- of them for each.
      LEFT JOIN LATERAL (SELECT open_at, room FROM ebb_gate WHERE target = p.target LIMIT 1) AS g ON true
     WHERE p.look_at <= (SELECT now FROM clock)
),
bound AS MATERIALIZED (
    SELECT greatest(8, 4 * $8::int / greatest(1, count(DISTINCT target)))::int AS most FROM parts WHERE again IS NULL
),
got AS MATERIALIZED (
    SELECT p.*, f.seqs, f.dues, bool_or(f.seqs IS NOT NULL) OVER (PARTITION BY target) AS found
      FROM parts p
     CROSS JOIN LATERAL (
        SELECT array_agg(seq) AS seqs, array_agg(due_at) AS dues
          FROM (SELECT seq, due_at
                  FROM ebb_job
                 WHERE /*of_part*/ AND (due_at, seq) > (p.low_at, p.low_seq) AND due_at <= (SELECT now FROM clock) AND /*startable*/
                 ORDER BY due_at, seq
                 LIMIT least($8, p.room, CASE WHEN p.retrying THEN $7 ELSE $6 END, (SELECT most FROM bound))) AS first) AS f
     WHERE again IS NULL
),
ready AS MATERIALIZED (
    SELECT *
      FROM (SELECT part_n, target, retrying, priority, room, seqs, dues, count(*) OVER (PARTITION BY target) = 1 AS alone,
                   dense_rank() OVER (ORDER BY lane_at, target) AS lane_n
              FROM got
             WHERE seqs IS NOT NULL) AS numbered
     WHERE lane_n <= $5
),
-- What a lane's only part found stands in its order; only several are merged.
chosen AS MATERIALIZED (
    SELECT seq, target, part_n, lane_n
      FROM (SELECT f.seq, target, part_n, lane_n, room, f.place
              FROM ready CROSS JOIN unnest(seqs) WITH ORDINALITY AS f (seq, place)
             WHERE alone
            UNION ALL
            SELECT seq, target, part_n, lane_n, room, row_number() OVER (PARTITION BY lane_n ORDER BY priority, due_at, seq)
              FROM (SELECT part_n, target, lane_n, room, retrying, priority, f.*,
                           row_number() OVER (PARTITION BY lane_n, retrying ORDER BY priority, f.due_at, f.seq) AS rank
                      FROM ready CROSS JOIN unnest(seqs, dues) AS f (seq, due_at)
                     WHERE NOT alone) AS ranked
             WHERE rank <= CASE WHEN retrying THEN $7 ELSE $6 END) AS placed
     WHERE place <= room
     ORDER BY place, lane_n
     LIMIT $8
),
locked AS MATERIALIZED (
    SELECT j.ctid AS tid, chosen.lane_n, chosen.part_n
      FROM chosen JOIN ebb_job j ON j.seq = chosen.seq
     WHERE j.process IS NULL AND j.blocked IS NULL AND j.lane = chosen.target
       FOR UPDATE OF j SKIP LOCKED
),
taken AS (
    UPDATE ebb_job j
       /*lease*/, begun = false
      FROM locked
     WHERE j.ctid = locked.tid
    RETURNING locked.lane_n, j.lane, locked.part_n, locked.tid, /*j.moved*/
),
counted AS (
    INSERT INTO ebb_tally (queue, process, queued, running) SELECT queue, $1, -count(*), count(*) FROM taken GROUP BY queue
),
-- Rows and their parts, in the order of the parts: a part's rows are a slice.
took AS MATERIALIZED (
    SELECT coalesce(array_agg(part_n), '{}') AS parts, coalesce(array_agg(tid), '{}') AS tids
      FROM (SELECT part_n, tid FROM taken ORDER BY part_n) AS sorted
),
-- Parts that get another look: of shut lanes, of lanes that gave something, and
-- of those that have nothing to give. What is left of one is looked for once:
-- OFFSET keeps the planner from doing so in every place where it is asked for.
ended AS MATERIALIZED (
    SELECT tids, queue_number, target, kind, retrying, priority, since, again AS next_at, false AS rests
      FROM parts WHERE again IS NOT NULL
    UNION ALL
    SELECT tids, queue_number, target, kind, retrying, priority, 'infinity',
           CASE WHEN left_at <= (SELECT now FROM clock) THEN (SELECT now FROM clock) + /*rest*/
                WHEN low_at > '-infinity' THEN least(left_at, (SELECT now FROM clock) + /*rest*/)
                ELSE left_at END,
           left_at <= (SELECT now FROM clock)
      FROM (SELECT *, CASE WHEN low_at > '-infinity' THEN /*left_further*/ ELSE /*left*/ END AS left_at
              FROM (SELECT got.*, (SELECT t.tids[width_bucket(got.part_n - 1, t.parts) + 1:width_bucket(got.part_n, t.parts)] FROM took t) AS rows
                      FROM got
                     WHERE NOT found OR target IN (SELECT lane FROM taken)
                    OFFSET 0) AS p
            OFFSET 0) AS p
),
cleared AS (DELETE FROM ebb_look WHERE ctid = ANY (ARRAY (SELECT unnest(tids) FROM ended))),
looked AS (
    INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
    SELECT next_at, since, queue_number, priority, retrying, target, kind FROM ended WHERE next_at IS NOT NULL
),
told AS MATERIALIZED (
    SELECT set_config('ebb.lanes', (coalesce(nullif(current_setting('ebb.lanes', true), ''), '{}')::text[] || array_agg(DISTINCT lane))::text, true)
      FROM taken
)
SELECT crowd.too_big, taken.*, coalesce(taken.lane IN (SELECT target FROM ended WHERE rests), false)
  FROM (SELECT EXISTS (SELECT FROM looked_at WHERE looks >= (SELECT most FROM share)) AS too_big) AS crowd
 CROSS JOIN told
  LEFT JOIN taken ON true
 WHERE taken.lane IS NOT NULL OR crowd.too_big

-- name: lanes
-- $1 target, $2 counted up to.
SELECT q.name, least(coalesce(sum(p.n) FILTER (WHERE NOT p.retrying), 0), $2::int)::int,
       least(coalesce(sum(p.n) FILTER (WHERE p.retrying), 0), $2)::int,
       min(p.look_at)
  FROM (SELECT p.queue_number, p.retrying, p.look_at,
               (SELECT count(*) FROM (SELECT FROM ebb_job WHERE /*of_part*/ LIMIT $2) AS counted) AS n
          FROM (SELECT queue_number, target, kind, retrying, priority, min(look_at) AS look_at
                  FROM ebb_look
                 WHERE target = $1
                 GROUP BY queue_number, target, kind, retrying, priority) AS p) AS p
  JOIN ebb_queue q ON q.number = p.queue_number
 WHERE p.n > 0
 GROUP BY q.name
 ORDER BY q.name

-- name: lanes_of
-- Lanes of the targets $1, counted up to $2.
SELECT p.target, q.name, least(coalesce(sum(p.n) FILTER (WHERE NOT p.retrying), 0), $2::int)::int,
       least(coalesce(sum(p.n) FILTER (WHERE p.retrying), 0), $2)::int,
       min(p.look_at)
  FROM (SELECT p.queue_number, p.target, p.retrying, p.look_at,
               (SELECT count(*) FROM (SELECT FROM ebb_job WHERE /*of_part*/ LIMIT $2) AS counted) AS n
          FROM (SELECT queue_number, target, kind, retrying, priority, min(look_at) AS look_at
                  FROM ebb_look
                 WHERE target = ANY ($1::text[])
                 GROUP BY queue_number, target, kind, retrying, priority) AS p) AS p
  JOIN ebb_queue q ON q.number = p.queue_number
 WHERE p.n > 0
 GROUP BY p.target, q.name
 ORDER BY p.target, q.name
