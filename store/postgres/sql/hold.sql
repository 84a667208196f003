-- fragment: ends
-- What ended, as whoever watches counts it.
SELECT kind, queue, coalesce(target, ''), coalesce(policy, 'default'), first_start_at IS NULL, count(*) FROM gone GROUP BY 1, 2, 3, 4, 5

-- fragment: ending
late AS MATERIALIZED (
    SELECT seq
      FROM ebb_job
     WHERE target = $3 AND process IS NULL AND due_at <= $4::timestamptz AND ($5 = '' OR coalesce(policy, 'default') = $5)
       AND ($6::boolean OR retrying = $7::boolean)
       AND CASE WHEN cardinality($8::bigint[]) = 0 THEN held IS NULL ELSE seq = ANY ($8) END
     ORDER BY seq
     LIMIT $2
       FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM ebb_job j USING late WHERE j.seq = late.seq RETURNING j.*)

-- name: end_failed
-- Waiting jobs fail: $1 now, $2 how many at most, $3 target, $4 due by, $5
-- policy, $6 whether any, $7 whether retries, $8 numbers, $9 cause. Answers
-- what ended.
WITH /*clock*/,
/*ending*/,
/*gone_freed*/,
/*gone_failed*/,
counted AS (
    INSERT INTO ebb_tally (queue, queued, failed) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
),
grouped AS (
    INSERT INTO ebb_group (fingerprint, kind, queue, last_class, cause, n)
    SELECT coalesce(fingerprint, ''), kind, queue, coalesce(last_class, ''), $9::text, count(*) FROM gone GROUP BY 1, 2, 3, 4
),
dead AS (
    INSERT INTO ebb_dead (/*moved*/, cause, ended_at) SELECT /*moved*/, $9, now FROM gone, clock
)
/*ends*/

-- name: end_parked
-- As end_failed; $1 is not used.
WITH /*clock*/,
/*ending*/,
/*gone_noted*/,
counted AS (
    INSERT INTO ebb_tally (queue, queued, parked) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
),
parked AS (
    INSERT INTO ebb_parked (/*moved*/, cause) SELECT /*moved*/, $9 FROM gone, clock
)
/*ends*/

-- name: held_before
SELECT /*job*/ FROM ebb_live_view WHERE target = $1 AND seq > $2 AND held IS NOT NULL AND process IS NULL ORDER BY seq LIMIT $3
