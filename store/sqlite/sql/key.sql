-- Keys: who stands in whose way.

-- name: key_join
-- Jobs that take their place in their keys.
INSERT INTO ebb_key (queue, key, seq, target) SELECT queue, key, seq, target FROM ebb_job WHERE /*seqs*/ AND key IS NOT NULL
ON CONFLICT DO UPDATE SET head = 0

-- name: key_leave
DELETE FROM ebb_key WHERE queue = ?1 AND key = ?2 AND seq = ?3

-- name: key_state
-- The least of the key, its head, and whether that one is running.
SELECT (SELECT min(seq) FROM ebb_key WHERE queue = ?1 AND key = ?2), h.seq,
       EXISTS (SELECT 1 FROM ebb_lease AS l WHERE l.seq = h.seq)
  FROM (SELECT 1) LEFT JOIN ebb_key AS h ON h.queue = ?1 AND h.key = ?2 AND h.head = 1

-- name: key_head
UPDATE ebb_key SET head = ?4 WHERE queue = ?1 AND key = ?2 AND seq = ?3

-- name: key_behind
-- What waits behind a job of the key.
SELECT j.seq, j.queue, 'queued', j.kind, j.priority, j.due_at, j.target, j.key, j.key_rule, j.first_start_at IS NOT NULL, j.policy
  FROM ebb_key AS k CROSS JOIN ebb_job AS j ON j.seq = k.seq
 WHERE k.queue = ?1 AND k.key = ?2 AND k.seq > ?3 AND NOT EXISTS (SELECT 1 FROM ebb_lease AS l WHERE l.seq = k.seq)
 ORDER BY k.seq

-- name: keyed
SELECT seq, key FROM ebb_job WHERE /*seqs*/ AND key IS NOT NULL ORDER BY seq

-- name: waiting_one
-- A queued job, as those that are about to end are told.
SELECT seq, queue, 'queued', kind, priority, due_at, target, key, key_rule, first_start_at IS NOT NULL, policy FROM ebb_job AS j
 WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM ebb_lease WHERE seq = j.seq)

-- name: dead_rule
SELECT key_rule FROM ebb_dead WHERE seq = ?1
