-- name: queues
-- Queues are made on their own, never inside a user's transaction: one that
-- stays open would hold up every other first enqueue to the same queue.
INSERT INTO ebb_queue (name) SELECT name FROM unnest($1::text[]) AS name ORDER BY name ON CONFLICT DO NOTHING

-- name: queue_numbers
SELECT name, number FROM ebb_queue WHERE name = ANY ($1::text[])

-- fragment: arrays
$2::text[], $3::text[], $4::smallint[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::text[], $9::text[],
$10::text[], $11::text[], $12::text[], $13::bytea[], $14::integer[], $15::text[]

-- fragment: columns
kind, queue, priority, due_at, deadline_at, policy, target, key, unique_key, batch, trace, args, queue_number, key_rule

-- fragment: lane
-- Where a job of a queue q waits: NULL is the plain lane.
CASE WHEN q.strict THEN NULL WHEN target <> '' THEN target WHEN q.concurrency <> 0 OR q.rate <> 0 THEN 'queue:' || q.name END

-- fragment: insert
clock AS MATERIALIZED (SELECT coalesce($1::timestamptz, statement_timestamp()) AS now),
counted AS (
    INSERT INTO ebb_tally (queue, queued) SELECT queue, count(*) FROM given GROUP BY queue
),
added AS (
    INSERT INTO ebb_job (seq, due_at, enqueued_at, deadline_at, priority, queue, kind, policy, target, key, unique_key, batch, trace,
                         args, queue_number, key_rule, lane, blocked)
    SELECT seq, coalesce(due_at, now), now, deadline_at, coalesce(priority, 0), queue, kind, nullif(policy, ''), nullif(target, ''),
           nullif(key, ''), nullif(unique_key, ''), nullif(batch, ''), nullif(trace, ''), args, queue_number, nullif(key_rule, ''),
           (SELECT /*lane*/ FROM ebb_queue q WHERE q.number = given.queue_number), /*blocked*/
      FROM given, clock
    RETURNING seq, due_at, blocked, /*part*/
),
looked AS (
    INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
    SELECT greatest(min(due_at), (SELECT now FROM clock)), min(due_at), /*part*/
      FROM added
     WHERE lane IS NOT NULL AND blocked IS NULL
     GROUP BY /*part*/
)
SELECT seq FROM added

-- name: enqueue
-- $1 now, NULL = the clock's. Answers the sequence numbers in the order of the
-- arrays.
WITH given AS MATERIALIZED (
    SELECT nextval('ebb_seq') AS seq, NULL::boolean AS behind, new.* FROM unnest(/*arrays*/) AS new (/*columns*/)
),
/*insert*/

-- name: enqueue_numbered
-- As enqueue, of jobs that have their numbers already. Those with a key are
-- enqueued under the key's lock: whoever is of it is seen, and comes before.
-- OFFSET 0 keeps PostgreSQL 18 from reading a whole table once to answer all
-- jobs of the batch.
WITH given AS MATERIALIZED (
    SELECT *, CASE WHEN key <> '' AND (
                   lag(seq) OVER (PARTITION BY queue, key ORDER BY seq) IS NOT NULL
                   OR EXISTS (SELECT FROM ebb_job j WHERE j.queue = new.queue AND j.key = new.key OFFSET 0)
                   OR EXISTS (SELECT FROM ebb_parked p WHERE p.queue = new.queue AND p.key = new.key OFFSET 0)
                   OR EXISTS (SELECT FROM ebb_dead d WHERE d.queue = new.queue AND d.key = new.key AND d.key_rule IS NULL OFFSET 0))
              THEN true END AS behind
      FROM unnest($16::bigint[], /*arrays*/) AS new (seq, /*columns*/)
),
/*insert*/

-- fragment: blocked
behind

-- fragment: key_lock
hashtextextended(key, hashtextextended(queue, 0))

-- name: lock_keys
-- Until the transaction ends, nobody else enqueues to these keys: so numbers
-- drawn from here on are in the order of commits. Sorted, so that two batches
-- never wait for each other.
SELECT count(pg_advisory_xact_lock(lock))
  FROM (SELECT DISTINCT /*key_lock*/ AS lock FROM unnest($1::text[], $2::text[]) AS k (queue, key) ORDER BY 1) AS sorted

-- name: numbers
-- So many values of the sequence, 8 bytes each, in order: any driver reads
-- bytes.
SELECT coalesce(string_agg(int8send(seq), ''::bytea), ''::bytea)
  FROM (SELECT nextval('ebb_seq') AS seq FROM generate_series(1, $1::bigint)) AS number

-- name: begin_copy
-- $1 values of the sequence for jobs that come by COPY, which are counted: $2
-- their queues, $3 how many go to each. Answers the clock, which is that of
-- COPY's defaults, the values as numbers does, and which of the queues are
-- strict, and which have limits.
WITH counted AS (
    INSERT INTO ebb_tally (queue, queued) SELECT * FROM unnest($2::text[], $3::bigint[])
)
SELECT now(), coalesce(string_agg(int8send(seq), ''::bytea), ''::bytea),
       ARRAY (SELECT name FROM ebb_queue WHERE name = ANY ($2::text[]) AND strict),
       ARRAY (SELECT name FROM ebb_queue WHERE name = ANY ($2::text[]) AND (concurrency <> 0 OR rate <> 0))
  FROM (SELECT nextval('ebb_seq') AS seq FROM generate_series(1, $1::bigint)) AS number

-- name: stay
-- Who changes where a queue's jobs wait lets this transaction end first: what
-- it reads of the queues from here on is true until then.
LOCK TABLE ebb_job IN ROW EXCLUSIVE MODE

-- name: look_enqueued
-- The looks of jobs that come by COPY: $1 now, then a row for each part.
INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
SELECT greatest(min(due_at), coalesce($1::timestamptz, now())), least(min(due_at), coalesce($1, now())), q.number, priority, false, /*lane*/, kind
  FROM unnest($2::integer[], $3::text[], $4::text[], $5::smallint[], $6::timestamptz[]) AS part (queue_number, target, kind, priority, due_at)
  JOIN ebb_queue q ON q.number = part.queue_number
 WHERE /*lane*/ IS NOT NULL
 GROUP BY q.number, priority, /*lane*/, kind

-- name: holders
-- Who has the unique keys at $2: a living job, or one whose time is not over.
SELECT key, seq FROM ebb_unique WHERE key = ANY ($1::text[])
UNION ALL
SELECT key, seq
  FROM ebb_reserved r
 WHERE key = ANY ($1) AND until > coalesce($2::timestamptz, now()) AND NOT EXISTS (SELECT FROM ebb_unique u WHERE u.key = r.key)

-- name: take_keys
-- Sorted, so that two batches never wait for each other.
INSERT INTO ebb_unique (key, seq)
SELECT key, seq FROM unnest($1::text[], $2::bigint[]) AS wanted (key, seq) ORDER BY key, seq
ON CONFLICT DO NOTHING
RETURNING key, seq

-- name: reserve_keys
-- $1 now, then keys that were taken, and how many microseconds each stays taken
-- at least.
INSERT INTO ebb_reserved (key, seq, until)
SELECT key, seq, coalesce($1::timestamptz, statement_timestamp()) + kept * interval '1 microsecond'
  FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS taken (key, seq, kept)
 ORDER BY key
ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, until = excluded.until

-- name: replace
-- A job that waits for its first start gets new content: $1 now, $2 its number.
-- Written anew instead of updated (see claim).
WITH gone AS (
    DELETE FROM ebb_job WHERE seq = $2 AND process IS NULL AND starts IS NULL RETURNING *
),
added AS (
    INSERT INTO ebb_job (/*moved*/, ordered, queue_number, lane, blocked, retrying)
    SELECT seq, coalesce($3::timestamptz, $1::timestamptz, statement_timestamp()), enqueued_at, $4::timestamptz, epoch, $5::smallint,
           queue, kind, nullif($6, ''), $7::bytea, target, key, key_rule, unique_key, nullif($8, ''), nullif($9, ''), progress,
           /*history_columns*/, /*last_columns*/, ordered, queue_number, lane, blocked, retrying
      FROM gone
    RETURNING due_at, blocked, /*part*/
)
INSERT INTO ebb_look (look_at, since, queue_number, priority, retrying, target, kind)
SELECT greatest(due_at, coalesce($1, statement_timestamp())), due_at, /*part*/ FROM added WHERE lane IS NOT NULL AND blocked IS NULL
