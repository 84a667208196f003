-- name: last_seq
SELECT seq FROM sqlite_sequence WHERE name = 'ebb_job'

-- name: unique_holder
SELECT seq FROM ebb_job WHERE unique_key = ?1
UNION ALL
SELECT seq FROM ebb_parked WHERE unique_key = ?1

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
INSERT INTO ebb_ready SELECT queue, kind, priority, due_at, seq FROM ebb_job WHERE /*seqs*/

-- name: unready
DELETE FROM ebb_ready WHERE queue = ?1 AND kind = ?2 AND priority = ?3 AND due_at = ?4 AND seq = ?5
