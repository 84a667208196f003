-- Keys: whoever moves a job of a key leaves a note, and in the same transaction
-- these four statements find the key's head anew. They need the key's lock, and
-- never wait for it: where an enqueue of the key is open, the note stays.
--
-- Each statement sees what was committed before it began: so the lock is taken
-- in one, and the line is looked at in the next.

-- name: take_notes
-- $1 the jobs whose notes are meant, NULL = all there are. Only this
-- transaction ever sees a note that is taken.
WITH picked AS MATERIALIZED (
    SELECT ctid AS tid, /*key_lock*/ AS lock
      FROM ebb_note
     WHERE $1::bigint[] IS NULL OR seq = ANY ($1)
     LIMIT 1000
       FOR UPDATE SKIP LOCKED
)
UPDATE ebb_note SET taken = true WHERE ctid = ANY (ARRAY (SELECT tid FROM picked WHERE pg_try_advisory_xact_lock(lock)))

-- name: park_behind
-- A job failed whose rule is park: what is queued behind it is parked. Answers
-- what ended.
WITH gone AS (
    DELETE FROM ebb_job j
     USING (SELECT queue, key, min(seq) AS seq FROM ebb_note WHERE taken AND park GROUP BY queue, key) AS head
     WHERE j.queue = head.queue AND j.key = head.key AND j.seq > head.seq AND j.process IS NULL
    RETURNING j.*
),
counted AS (
    INSERT INTO ebb_tally (queue, queued, parked) SELECT queue, -count(*), count(*) FROM gone GROUP BY queue
),
parked AS (
    INSERT INTO ebb_parked (/*moved*/, cause) SELECT /*moved*/, 'head_failed' FROM gone
)
/*ends*/

-- fragment: least
-- The least of the line that the key k has.
least((SELECT min(seq) FROM ebb_job WHERE queue = k.queue AND key = k.key),
      (SELECT min(seq) FROM ebb_parked WHERE queue = k.queue AND key = k.key),
      (SELECT min(seq) FROM ebb_dead WHERE queue = k.queue AND key = k.key AND key_rule IS NULL))

-- name: demote
-- What is not blocked and not the least, because one came back before it, is
-- blocked. One that is being claimed runs: it stays the head.
WITH heads AS MATERIALIZED (
    SELECT k.queue, k.key, /*least*/ AS seq
      FROM (SELECT DISTINCT queue, key FROM ebb_note WHERE taken) AS k
)
UPDATE ebb_job j
   SET blocked = true
  FROM heads
 WHERE j.queue = heads.queue AND j.key = heads.key AND j.key IS NOT NULL AND j.blocked IS NULL AND j.process IS NULL AND j.seq > heads.seq

-- name: promote
-- The least is the head, unless one is running. $1 now. Answers where those
-- wait that were promoted to the plain lane.
WITH done AS (
    DELETE FROM ebb_note WHERE taken RETURNING queue, key
),
heads AS MATERIALIZED (
    SELECT k.queue, k.key, /*least*/ AS seq
      FROM (SELECT DISTINCT queue, key FROM done) AS k
     WHERE NOT EXISTS (SELECT FROM ebb_job j WHERE j.queue = k.queue AND j.key = k.key AND j.key IS NOT NULL AND j.blocked IS NULL)
),
freed AS (
    UPDATE ebb_job j
       SET blocked = NULL
      FROM heads
     WHERE j.seq = heads.seq AND j.blocked AND j.process IS NULL
    RETURNING j.queue, j.due_at, /*j.part*/
),
looked AS (
    INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
    SELECT greatest(min(due_at), coalesce($1::timestamptz, now())), min(due_at), /*part*/ FROM freed WHERE lane IS NOT NULL GROUP BY /*part*/
)
SELECT queue, due_at, lane IS NULL FROM freed
