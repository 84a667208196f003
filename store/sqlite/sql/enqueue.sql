-- name: last_seq
SELECT seq FROM sqlite_sequence WHERE name = 'ebb_job'

-- name: unique_holder
-- The living job that has the key.
SELECT seq FROM ebb_job WHERE unique_key = ?1
UNION ALL
SELECT seq FROM ebb_parked WHERE unique_key = ?1

-- name: unique_kept
SELECT seq, until FROM ebb_unique WHERE unique_key = ?1

-- name: unique_keep
INSERT INTO ebb_unique (unique_key, seq, until) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET seq = excluded.seq, until = excluded.until

-- name: unique_free
DELETE FROM ebb_unique WHERE unique_key = ?1

-- name: unique_old
DELETE FROM ebb_unique WHERE unique_key IN (SELECT unique_key FROM ebb_unique WHERE until <= ?1 LIMIT ?2)

-- name: replace
-- What a later enqueue of a unique key may change of a job that waits for its
-- first start.
UPDATE ebb_job SET priority = ?2, due_at = ?3, policy = ?4, deadline_at = ?5, batch = ?6, trace = ?7, args = ?8 WHERE seq = ?1

-- name: key_rule
UPDATE ebb_job SET key_rule = ?3 WHERE /*seqs*/

-- name: queue_add
INSERT INTO ebb_queue (name) VALUES (?1) ON CONFLICT DO NOTHING

-- name: enqueue_one
INSERT INTO ebb_job (seq, queue, kind, priority, due_at, enqueued_at, policy, target, key, unique_key, deadline_at,
                     batch, trace, args)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: enqueue_alike
-- A run of jobs that differ in nothing but their args. ?1 is an array of
-- numbers, one a job: the offset of its args in ?2 shifted left by 32, plus
-- their length. ?3 is the first sequence number.
INSERT INTO ebb_job (seq, queue, kind, priority, due_at, enqueued_at, policy, target, key, unique_key, deadline_at,
                     batch, trace, args)
SELECT ?3 + key, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
       substr(?2, (value >> 32) + 1, value & 4294967295)
  FROM json_each(?1)

-- name: ready
-- For jobs that are known to wait in the plain lane.
INSERT INTO ebb_ready SELECT queue, kind, priority, due_at, seq FROM ebb_job WHERE /*seqs*/

-- name: ready_plain
-- Those of them that do.
INSERT INTO ebb_ready
SELECT queue, kind, priority, due_at, seq FROM ebb_job WHERE /*seqs*/ AND coalesce(target, key) IS NULL

-- name: ready_known
-- Heads of their keys (?4), of a strict queue, or (?3) without a target.
INSERT INTO ebb_ready
SELECT queue, kind, priority, due_at, seq FROM ebb_job WHERE /*seqs*/ AND (target IS NULL OR ?3) AND (key IS NULL OR ?4)

-- name: unready
DELETE FROM ebb_ready WHERE queue = ?1 AND kind = ?2 AND priority = ?3 AND due_at = ?4 AND seq = ?5
