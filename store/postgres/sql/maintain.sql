-- fragment: gone_failed
noted AS (
    INSERT INTO ebb_note (seq, park, queue, key) SELECT seq, coalesce(key_rule = 'park', false), queue, key FROM gone WHERE key IS NOT NULL
)

-- name: expire
-- $1 now, $2 rows at most. Answers what ended.
WITH clock AS MATERIALIZED (SELECT coalesce($1::timestamptz, now()) AS now),
late AS MATERIALIZED (
    SELECT seq
      FROM ebb_job
     WHERE deadline_at < coalesce($1::timestamptz, now()) AND process IS NULL
     ORDER BY deadline_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM ebb_job j USING late WHERE j.seq = late.seq RETURNING j.*),
/*gone_freed*/,
/*gone_failed*/,
counted AS (
    INSERT INTO ebb_tally (queue, queued, failed) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
),
grouped AS (
    INSERT INTO ebb_group (fingerprint, kind, queue, last_class, cause, n)
    SELECT coalesce(fingerprint, ''), kind, queue, coalesce(last_class, ''), 'expired', count(*) FROM gone GROUP BY 1, 2, 3, 4
),
dead AS (
    INSERT INTO ebb_dead (/*moved*/, cause, ended_at) SELECT /*moved*/, 'expired', now FROM gone, clock
)
/*ends*/

-- name: drop_done
-- $1 now, $2 rows at most, $3 microseconds kept.
WITH old AS MATERIALIZED (
    SELECT seq
      FROM ebb_done
     WHERE ended_at <= coalesce($1::timestamptz, now()) - $3::bigint * interval '1 microsecond'
     ORDER BY ended_at
     LIMIT $2
),
gone AS (DELETE FROM ebb_done d USING old WHERE d.seq = old.seq RETURNING d.seq, d.queue, d.cancelled),
ledger AS (DELETE FROM ebb_attempt a USING gone WHERE a.seq = gone.seq),
counted AS (
    INSERT INTO ebb_tally (queue, succeeded, cancelled)
    SELECT queue, -count(*) FILTER (WHERE NOT cancelled), -count(*) FILTER (WHERE cancelled) FROM gone GROUP BY queue
)
SELECT count(*) FROM gone

-- name: drop_dead
WITH old AS MATERIALIZED (
    SELECT seq
      FROM ebb_dead
     WHERE ended_at <= coalesce($1::timestamptz, now()) - $3::bigint * interval '1 microsecond'
     ORDER BY ended_at
     LIMIT $2
),
gone AS (DELETE FROM ebb_dead d USING old WHERE d.seq = old.seq RETURNING d.seq, d.queue, d.fingerprint, d.kind, d.last_class, d.cause, d.key),
ledger AS (DELETE FROM ebb_attempt a USING gone WHERE a.seq = gone.seq),
/*ungrouped*/,
/*gone_noted*/,
counted AS (INSERT INTO ebb_tally (queue, failed) SELECT queue, -count(*) FROM gone GROUP BY queue)
SELECT count(*) FROM gone

-- name: drop_reserved
-- Unique keys whose time is over.
WITH old AS MATERIALIZED (
    SELECT ctid AS tid FROM ebb_reserved WHERE until <= coalesce($1::timestamptz, now()) ORDER BY until LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM ebb_reserved WHERE ctid = ANY (ARRAY (SELECT tid FROM old))

-- name: worth_folding
-- Folding writes every sum anew: not before there is much to add up.
SELECT (SELECT count(*) FROM ebb_tally) > 256 + 4 * (SELECT count(*) FROM ebb_queue),
       (SELECT count(*) > 256 AND count(*) > 2 * count(DISTINCT (fingerprint, kind, queue, last_class, cause)) FROM ebb_group)

-- name: fold_tally
WITH gone AS (DELETE FROM ebb_tally RETURNING *)
INSERT INTO ebb_tally (queue, process, queued, running, succeeded, failed, parked, cancelled)
SELECT queue, NULL::bigint, sum(queued), 0, sum(succeeded), sum(failed), sum(parked), sum(cancelled)
  FROM gone
 GROUP BY queue
UNION ALL
SELECT queue, process, 0, sum(running), 0, 0, 0, 0
  FROM gone
 WHERE process IS NOT NULL
 GROUP BY queue, process
HAVING sum(running) <> 0

-- name: fold_group
WITH gone AS (DELETE FROM ebb_group RETURNING *)
INSERT INTO ebb_group (fingerprint, kind, queue, last_class, cause, n)
SELECT fingerprint, kind, queue, last_class, cause, sum(n) FROM gone GROUP BY 1, 2, 3, 4, 5 HAVING sum(n) <> 0
