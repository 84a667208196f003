-- Settles, one statement for each place that a lease ends in. Deleting a row and
-- writing it elsewhere is one statement, so it happens to exactly those rows
-- that are leased as said; these are answered.
--
-- All but succeed_fresh take the same arrays, $3 the sequence numbers in order.
-- A settle is a place in them: /*s_...*/ stands for what becomes of the job
-- there, /*a_...*/ for the ledger's row, as settleColumns of settle.go says.
-- What is absent is NULL. An outcome is 1 for a start that succeeded, 2 for one
-- that did not, NULL where nothing began.

-- fragment: now
coalesce($2::timestamptz, now())

-- fragment: failed
coalesce(/*a_outcome*/, 0) = 2

-- fragment: recorded
recorded AS (
    INSERT INTO ebb_attempt (/*attempt_columns*/)
    SELECT /*attempt*/ FROM ended WHERE /*a_outcome*/ IS NOT NULL
)

-- fragment: attempt_columns
seq, process, started_at, ended_at, due_at, delay, held, retry_after, epoch, start, status, ok, class, reason, error, action,
                             cause, held_by, counted, rule, version, stack

-- fragment: attempt
seq, $1, /*a_started_at*/, /*a_ended_at*/, a_due_at, /*a_delay*/, /*a_held*/, /*a_retry_after*/, /*s_epoch*/,
           coalesce(/*a_start*/, 0), /*a_status*/, /*a_outcome*/ = 1, /*a_class*/, /*a_reason*/, /*a_error*/, /*a_action*/,
           /*a_cause*/, /*a_held_by*/, /*a_counted*/, /*a_rule*/, /*a_version*/, /*a_stack*/

-- fragment: gone
ended AS (
    DELETE FROM ebb_job j
     WHERE j.seq = ANY ($3::bigint[]) AND j.process = $1 AND j.epoch = ($6::bigint[])[width_bucket(j.seq, $3::bigint[])]
    RETURNING /*j.kept*/, /*j.last_columns*/, width_bucket(j.seq, $3::bigint[]) AS place, NULL::timestamptz AS a_due_at
)

-- fragment: settles
(SELECT s_seq, s_free, at::int AS place FROM unnest($3::bigint[], $5::bytea[]) WITH ORDINALITY AS s (s_seq, s_free, at)) AS settles

-- fragment: history
/*s_first_start_at*/, /*s_last_delay*/, /*s_starts*/, /*s_attempts*/, /*s_waits*/, /*s_idle*/, /*s_crashes*/, ($5::bytea[])[place], /*s_held*/

-- fragment: last
CASE WHEN /*failed*/ THEN /*a_class*/ ELSE last_class END, CASE WHEN /*failed*/ THEN /*a_error*/ ELSE last_error END,
CASE WHEN /*failed*/ THEN /*s_fingerprint*/ ELSE fingerprint END, CASE WHEN /*failed*/ THEN /*a_version*/ ELSE version END

-- fragment: remembered
due_at = coalesce(/*s_due_at*/, /*now*/ + coalesce(/*s_wait*/, 0) * interval '1 microsecond'),
           first_start_at = /*s_first_start_at*/, last_delay = /*s_last_delay*/, starts = /*s_starts*/, attempts = /*s_attempts*/,
           waits = /*s_waits*/, idle = /*s_idle*/, crashes = /*s_crashes*/, free = s_free, held = /*s_held*/,
           retrying = /*s_first_start_at*/ IS NOT NULL,
           last_class = CASE WHEN /*failed*/ THEN /*a_class*/ ELSE last_class END,
           last_error = CASE WHEN /*failed*/ THEN /*a_error*/ ELSE last_error END,
           fingerprint = CASE WHEN /*failed*/ THEN /*s_fingerprint*/ ELSE fingerprint END,
           version = CASE WHEN /*failed*/ THEN /*a_version*/ ELSE version END

-- fragment: freed
freed AS (
    DELETE FROM ebb_unique u USING ended WHERE ended.unique_key IS NOT NULL AND u.key = ended.unique_key
)

-- fragment: noted
noted AS (
    INSERT INTO ebb_note (seq, park, queue, key) SELECT seq, false, queue, key FROM ended WHERE key IS NOT NULL
)

-- fragment: looked
looked AS (
    INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
    SELECT greatest(min(due_at), /*now*/), min(due_at), /*part*/ FROM ended WHERE lane IS NOT NULL AND blocked IS NULL GROUP BY /*part*/
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
/*noted*/,
counted AS (
    INSERT INTO ebb_tally (queue, process, running, succeeded) SELECT queue, $1, -count(*), count(*) FROM ended GROUP BY queue
),
done AS (
    INSERT INTO ebb_done (/*kept*/, last_class, last_error, fingerprint, version, first_start_at, starts, attempts, idle, cancelled, ended_at,
                          run_by, run_start, run_from, run_until, run_version, result)
    SELECT /*kept*/, last_class, last_error, fingerprint, version, ($6::timestamptz[])[place], 1, 1, 1, false,
           coalesce($2::timestamptz, now()), $1, 1, ($6)[place], ($7::timestamptz[])[place], nullif($3, ''), ($8::bytea[])[place]
      FROM ended
)
SELECT refused
  FROM unnest($5) AS refused
 WHERE (SELECT count(*) FROM ended) < cardinality($5) AND refused NOT IN (SELECT seq FROM ended)

-- name: succeed
-- Also cancelled, if $39 says so. A start that succeeded stands in the row.
WITH /*gone*/,
/*freed*/,
/*noted*/,
recorded AS (
    INSERT INTO ebb_attempt (/*attempt_columns*/)
    SELECT /*attempt*/ FROM ended WHERE /*failed*/
),
counted AS (
    INSERT INTO ebb_tally (queue, process, running, succeeded, cancelled)
    SELECT queue, $1, -count(*), CASE WHEN $39 THEN 0 ELSE count(*) END, CASE WHEN $39 THEN count(*) ELSE 0 END FROM ended GROUP BY queue
)
INSERT INTO ebb_done (/*kept*/, /*history_columns*/, /*last_columns*/, cancelled, ended_at, result,
                      run_by, run_start, run_from, run_until, run_held_by, run_held, run_version)
SELECT /*kept*/, /*history*/, /*last*/, $39::boolean, /*now*/, ($4::bytea[])[place],
       CASE WHEN /*a_outcome*/ = 1 THEN $1 END, CASE WHEN /*a_outcome*/ = 1 THEN coalesce(/*a_start*/, 0) END,
       CASE WHEN /*a_outcome*/ = 1 THEN /*a_started_at*/ END, CASE WHEN /*a_outcome*/ = 1 THEN /*a_ended_at*/ END,
       CASE WHEN /*a_outcome*/ = 1 THEN /*a_held_by*/ END, CASE WHEN /*a_outcome*/ = 1 THEN /*a_held*/ END,
       CASE WHEN /*a_outcome*/ = 1 THEN /*a_version*/ END
  FROM ended
RETURNING seq

-- name: fail
WITH /*gone*/,
/*freed*/,
noted AS (
    INSERT INTO ebb_note (seq, park, queue, key) SELECT seq, coalesce(key_rule = 'park', false), queue, key FROM ended WHERE key IS NOT NULL
),
/*recorded*/,
counted AS (
    INSERT INTO ebb_tally (queue, process, running, failed) SELECT queue, $1, -count(*), count(*) FROM ended GROUP BY queue
),
dead AS (
    INSERT INTO ebb_dead (/*kept*/, /*history_columns*/, /*last_columns*/, cause, ended_at)
    SELECT /*kept*/, /*history*/, /*last*/, /*s_cause*/, /*now*/ FROM ended
    RETURNING seq, fingerprint, kind, queue, last_class, cause
),
grouped AS (
    INSERT INTO ebb_group (fingerprint, kind, queue, last_class, cause, n)
    SELECT coalesce(fingerprint, ''), kind, queue, coalesce(last_class, ''), cause, count(*) FROM dead GROUP BY 1, 2, 3, 4, 5
)
SELECT seq FROM dead

-- name: park
WITH /*gone*/,
/*noted*/,
/*recorded*/,
counted AS (
    INSERT INTO ebb_tally (queue, process, running, parked) SELECT queue, $1, -count(*), count(*) FROM ended GROUP BY queue
)
INSERT INTO ebb_parked (/*kept*/, /*history_columns*/, /*last_columns*/, cause, config)
SELECT /*kept*/, /*history*/, /*last*/, /*s_cause*/, /*s_config*/ FROM ended
RETURNING seq

-- name: requeue
-- The job waits for its due time in its place. Under a cancel order it ends:
-- end_ordered follows in the same transaction.
WITH ended AS (
    UPDATE ebb_job j
       SET process = NULL, leased_at = NULL, begun = false, /*remembered*/
      FROM /*settles*/
     WHERE j.seq = s_seq AND j.epoch = /*s_epoch*/ AND j.process = $1
    RETURNING j.seq, j.queue, place, CASE WHEN NOT j.ordered AND /*failed*/ THEN j.due_at END AS a_due_at,
              j.due_at, j.key, j.blocked, /*j.part*/
),
/*noted*/,
/*looked*/,
/*recorded*/,
counted AS (
    INSERT INTO ebb_tally (queue, process, queued, running) SELECT queue, $1, count(*), -count(*) FROM ended GROUP BY queue
)
SELECT seq FROM ended

-- name: keep
-- The start has ended, the lease waits for the next under the next epoch. A
-- cancel order waits with it.
WITH ended AS (
    UPDATE ebb_job j
       SET begun = false, epoch = epoch + 1, /*remembered*/
      FROM /*settles*/
     WHERE j.seq = s_seq AND j.epoch = /*s_epoch*/ AND j.process = $1
    RETURNING j.seq, place, CASE WHEN /*failed*/ THEN j.due_at END AS a_due_at
),
/*recorded*/
SELECT seq FROM ended
