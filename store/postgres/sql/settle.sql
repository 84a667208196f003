-- Settles, one statement for each place that a lease ends in. All of them but
-- succeed_fresh take the same arrays, one row a settle: s_ is what becomes of
-- the job, a_ the ledger's row (a_ok NULL = none). What many rows of the ledger
-- have in common, the verdict, is sent once: a_verdict is its place.
--
-- Deleting the row and writing it elsewhere is one statement, so it happens to
-- exactly those rows that are leased as said; these are answered.

-- fragment: settle
settle AS (
    SELECT s.*, coalesce($2::timestamptz, now()) AS s_now, ($29::text[])[a_verdict] AS a_class, ($30::text[])[a_verdict] AS a_reason,
           ($31::text[])[a_verdict] AS a_action, ($32::text[])[a_verdict] AS a_cause, ($33::text[])[a_verdict] AS a_counted,
           ($34::text[])[a_verdict] AS a_rule, ($35::text[])[a_verdict] AS a_version
      FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bytea[], $8::timestamptz[], $9::bigint[],
                  $10::timestamptz[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::int[], $17::bytea[],
                  $18::text[], $19::int[], $20::boolean[], $21::timestamptz[], $22::timestamptz[], $23::int[], $24::text[],
                  $25::text[], $26::bigint[], $27::text[], $28::bigint[], $36::bigint[], $37::int[])
        AS s (s_seq, s_epoch, s_cause, s_config, s_result, s_due_at, s_wait,
              s_first_start_at, s_last_delay, s_starts, s_attempts, s_waits, s_idle, s_crashes, s_free,
              s_fingerprint, a_start, a_ok, a_started_at, a_ended_at, a_status, a_error,
              a_stack, a_retry_after, a_held_by, a_held, a_delay, a_verdict)
)

-- fragment: recorded
recorded AS (
    INSERT INTO ebb_attempt (seq, process, started_at, ended_at, due_at, delay, held, retry_after, epoch, start, status, ok,
                             class, reason, error, action, cause, held_by, counted, rule, version, stack)
    SELECT seq, $1, a_started_at, a_ended_at, a_due_at, nullif(a_delay, 0), nullif(a_held, 0), nullif(a_retry_after, 0), s_epoch,
           coalesce(a_start, 0), nullif(a_status, 0), a_ok, nullif(a_class, ''), nullif(a_reason, ''), nullif(a_error, ''), nullif(a_action, ''),
           nullif(a_cause, ''), nullif(a_held_by, ''), nullif(a_counted, ''), nullif(a_rule, ''), nullif(a_version, ''),
           nullif(a_stack, '')
      FROM ended
     WHERE a_ok IS NOT NULL
)

-- fragment: gone
ended AS (
    DELETE FROM ebb_job j USING settle
     WHERE j.seq = s_seq AND j.epoch = s_epoch AND j.process = $1
    RETURNING /*j.kept*/, j.last_class, j.last_error, j.fingerprint, j.version, NULL::timestamptz AS a_due_at, settle.*
)

-- fragment: history
s_first_start_at, nullif(s_last_delay, 0), nullif(s_starts, 0), nullif(s_attempts, 0), nullif(s_waits, 0), nullif(s_idle, 0),
nullif(s_crashes, 0), s_free

-- fragment: last
CASE WHEN NOT a_ok THEN nullif(a_class, '') ELSE last_class END, CASE WHEN NOT a_ok THEN nullif(a_error, '') ELSE last_error END,
CASE WHEN NOT a_ok THEN nullif(s_fingerprint, '') ELSE fingerprint END, CASE WHEN NOT a_ok THEN nullif(a_version, '') ELSE version END

-- fragment: remembered
due_at = coalesce(s_due_at, s_now + coalesce(s_wait, 0) * interval '1 microsecond'),
           first_start_at = s_first_start_at, last_delay = nullif(s_last_delay, 0), starts = nullif(s_starts, 0),
           attempts = nullif(s_attempts, 0), waits = nullif(s_waits, 0), idle = nullif(s_idle, 0),
           crashes = nullif(s_crashes, 0), free = s_free,
           last_class = CASE WHEN NOT a_ok THEN nullif(a_class, '') ELSE last_class END,
           last_error = CASE WHEN NOT a_ok THEN nullif(a_error, '') ELSE last_error END,
           fingerprint = CASE WHEN NOT a_ok THEN nullif(s_fingerprint, '') ELSE fingerprint END,
           version = CASE WHEN NOT a_ok THEN nullif(a_version, '') ELSE version END

-- fragment: freed
freed AS (
    DELETE FROM ebb_unique u USING ended WHERE ended.unique_key IS NOT NULL AND u.key = ended.unique_key
)

-- name: succeed_fresh
-- Jobs that succeeded at their first start: the short way of most jobs.
-- $1 process, $2 now, $3 policy version, $4 epoch, then one row a settle.
-- $5 is sorted: a job's place in it is that of its times. Mostly all are leased
-- as said: so the others are answered.
WITH ended AS (
    DELETE FROM ebb_job j
     WHERE j.seq = ANY ($5::bigint[]) AND j.epoch = $4 AND j.process = $1
    RETURNING /*j.kept*/, j.last_class, j.last_error, j.fingerprint, j.version, width_bucket(j.seq, $5::bigint[]) AS place
),
/*freed*/,
counted AS (
    INSERT INTO ebb_tally (queue, process, running, succeeded) SELECT queue, $1, -count(*), count(*) FROM ended GROUP BY queue
),
done AS (
    INSERT INTO ebb_done (/*kept*/, last_class, last_error, fingerprint, version, first_start_at, starts, attempts, idle, cancelled, ended_at,
                          run_by, run_start, run_from, run_until, run_version)
    SELECT /*kept*/, last_class, last_error, fingerprint, version, ($6::timestamptz[])[place], 1, 1, 1, false,
           coalesce($2::timestamptz, now()), $1, 1, ($6)[place], ($7::timestamptz[])[place], nullif($3, '')
      FROM ended
)
SELECT refused
  FROM unnest($5) AS refused
 WHERE (SELECT count(*) FROM ended) < cardinality($5) AND refused NOT IN (SELECT seq FROM ended)

-- name: succeed
WITH /*settle*/,
/*gone*/,
/*freed*/,
recorded AS (
    INSERT INTO ebb_attempt (seq, process, started_at, ended_at, delay, held, retry_after, epoch, start, status, ok,
                             class, reason, error, action, cause, held_by, counted, rule, version, stack)
    SELECT seq, $1, a_started_at, a_ended_at, nullif(a_delay, 0), nullif(a_held, 0), nullif(a_retry_after, 0), s_epoch,
           coalesce(a_start, 0), nullif(a_status, 0), a_ok, nullif(a_class, ''), nullif(a_reason, ''), nullif(a_error, ''), nullif(a_action, ''),
           nullif(a_cause, ''), nullif(a_held_by, ''), nullif(a_counted, ''), nullif(a_rule, ''), nullif(a_version, ''),
           nullif(a_stack, '')
      FROM ended
     WHERE NOT a_ok
),
counted AS (
    INSERT INTO ebb_tally (queue, process, running, succeeded, cancelled)
    SELECT queue, $1, -count(*), CASE WHEN $38 THEN 0 ELSE count(*) END, CASE WHEN $38 THEN count(*) ELSE 0 END FROM ended GROUP BY queue
)
INSERT INTO ebb_done (/*kept*/, /*history_columns*/, /*last_columns*/, cancelled, ended_at, result,
                      run_by, run_start, run_from, run_until, run_held_by, run_held, run_version)
SELECT /*kept*/, /*history*/, /*last*/, $38::boolean, s_now, s_result,
       CASE WHEN a_ok THEN $1 END, CASE WHEN a_ok THEN a_start END, CASE WHEN a_ok THEN a_started_at END,
       CASE WHEN a_ok THEN a_ended_at END, CASE WHEN a_ok THEN nullif(a_held_by, '') END, CASE WHEN a_ok THEN nullif(a_held, 0) END,
       CASE WHEN a_ok THEN nullif(a_version, '') END
  FROM ended
RETURNING seq

-- name: fail
WITH /*settle*/,
/*gone*/,
/*freed*/,
/*recorded*/,
counted AS (
    INSERT INTO ebb_tally (queue, process, running, failed) SELECT queue, $1, -count(*), count(*) FROM ended GROUP BY queue
),
dead AS (
    INSERT INTO ebb_dead (/*kept*/, /*history_columns*/, /*last_columns*/, cause, ended_at)
    SELECT /*kept*/, /*history*/, /*last*/, s_cause, s_now FROM ended
    RETURNING seq, fingerprint, kind, queue, last_class, cause
),
grouped AS (
    INSERT INTO ebb_group (fingerprint, kind, queue, last_class, cause, n)
    SELECT coalesce(fingerprint, ''), kind, queue, coalesce(last_class, ''), cause, count(*) FROM dead GROUP BY 1, 2, 3, 4, 5
)
SELECT seq FROM dead

-- name: park
WITH /*settle*/,
/*gone*/,
/*recorded*/,
counted AS (
    INSERT INTO ebb_tally (queue, process, running, parked) SELECT queue, $1, -count(*), count(*) FROM ended GROUP BY queue
)
INSERT INTO ebb_parked (/*kept*/, /*history_columns*/, /*last_columns*/, cause, config)
SELECT /*kept*/, /*history*/, /*last*/, s_cause, nullif(s_config, '') FROM ended
RETURNING seq

-- name: requeue
-- The job waits for its due time in its place. Under a cancel order it ends:
-- end_ordered follows in the same transaction.
WITH /*settle*/,
ended AS (
    UPDATE ebb_job j
       SET process = NULL, leased_at = NULL, begun = false, /*remembered*/
      FROM settle
     WHERE j.seq = s_seq AND j.epoch = s_epoch AND j.process = $1
    RETURNING j.seq, j.queue, CASE WHEN NOT j.ordered AND NOT a_ok THEN j.due_at END AS a_due_at, settle.*
),
/*recorded*/,
counted AS (
    INSERT INTO ebb_tally (queue, process, queued, running) SELECT queue, $1, count(*), -count(*) FROM ended GROUP BY queue
)
SELECT seq FROM ended

-- name: keep
-- The start has ended, the lease waits for the next under the next epoch. A
-- cancel order waits with it.
WITH /*settle*/,
ended AS (
    UPDATE ebb_job j
       SET begun = false, epoch = epoch + 1, /*remembered*/
      FROM settle
     WHERE j.seq = s_seq AND j.epoch = s_epoch AND j.process = $1
    RETURNING j.seq, CASE WHEN NOT a_ok THEN j.due_at END AS a_due_at, settle.*
),
/*recorded*/
SELECT seq FROM ended
