-- name: queues
-- Queues are made on their own, never inside a user's transaction: one that
-- stays open would hold up every other first enqueue to the same queue.
INSERT INTO ebb_queue (name) SELECT name FROM unnest($1::text[]) AS name ORDER BY name ON CONFLICT DO NOTHING

-- name: queue_numbers
SELECT name, number FROM ebb_queue WHERE name = ANY ($1::text[])

-- fragment: arrays
$2::text[], $3::text[], $4::smallint[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::text[], $9::text[],
$10::text[], $11::text[], $12::text[], $13::bytea[], $14::integer[]

-- fragment: columns
kind, queue, priority, due_at, deadline_at, policy, target, key, unique_key, batch, trace, args, queue_number

-- fragment: insert
clock AS MATERIALIZED (SELECT coalesce($1::timestamptz, statement_timestamp()) AS now),
counted AS (
    INSERT INTO ebb_tally (queue, queued) SELECT queue, count(*) FROM given GROUP BY queue
)
INSERT INTO ebb_job (seq, due_at, enqueued_at, deadline_at, priority, queue, kind, policy, target, key, unique_key, batch, trace, args,
                     queue_number)
SELECT seq, coalesce(due_at, now), now, deadline_at, coalesce(priority, 0), queue, kind, nullif(policy, ''), nullif(target, ''),
       nullif(key, ''), nullif(unique_key, ''), nullif(batch, ''), nullif(trace, ''), args, queue_number
  FROM given, clock
RETURNING seq

-- name: enqueue
-- $1 now, NULL = the clock's. Answers the sequence numbers in the order of the
-- arrays.
WITH given AS MATERIALIZED (SELECT nextval('ebb_seq') AS seq, new.* FROM unnest(/*arrays*/) AS new (/*columns*/)),
/*insert*/

-- name: enqueue_numbered
-- As enqueue, of jobs that have their numbers already.
WITH given AS MATERIALIZED (SELECT * FROM unnest($15::bigint[], /*arrays*/) AS new (seq, /*columns*/)),
/*insert*/

-- name: numbers
-- So many values of the sequence, 8 bytes each, in order: any driver reads
-- bytes. The clock is that of COPY's defaults.
SELECT now(), coalesce(string_agg(int8send(seq), ''::bytea), ''::bytea)
  FROM (SELECT nextval('ebb_seq') AS seq FROM generate_series(1, $1::bigint)) AS number

-- name: count_enqueued
INSERT INTO ebb_tally (queue, queued) SELECT * FROM unnest($1::text[], $2::bigint[])

-- name: holders
SELECT key, seq FROM ebb_unique WHERE key = ANY ($1::text[])

-- name: take_keys
-- Sorted, so that two batches never wait for each other.
INSERT INTO ebb_unique (key, seq)
SELECT key, seq FROM unnest($1::text[], $2::bigint[]) AS wanted (key, seq) ORDER BY key, seq
ON CONFLICT DO NOTHING
RETURNING key, seq
