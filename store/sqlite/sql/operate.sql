-- name: audit_add
INSERT INTO ebb_audit (at, actor, act, what, detail) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: order
UPDATE ebb_lease SET ordered = 1 WHERE seq = ?1

-- name: due
UPDATE ebb_job SET due_at = ?2 WHERE seq = ?1

-- name: queue_pause
INSERT INTO ebb_queue (name, paused) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET paused = excluded.paused

-- name: queue_strict
INSERT INTO ebb_queue (name, strict) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET strict = excluded.strict

-- name: parked_cancel
INSERT INTO ebb_done (state, ended_at,
                     seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
                     starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, key_rule, held_for, args)
SELECT 'cancelled', ?,
       seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
       starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, key_rule, held_for, args
  FROM ebb_parked WHERE seq = ?

-- name: dead_again
-- A dead letter with fresh attempts; ?1 is now.
INSERT INTO ebb_job (seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key,
                     deadline_at, batch, trace, starts, last_class, last_error, fingerprint, version, progress, key_rule, args)
SELECT seq, queue, kind, priority, ?1, epoch, enqueued_at, policy, target, key, unique_key,
       CASE WHEN deadline_at >= ?1 THEN deadline_at END, batch, trace, starts, last_class, last_error, fingerprint, version, progress, key_rule, args
  FROM ebb_dead WHERE seq = ?2

-- name: parked_again
-- A parked job; one whose target was down goes on with the attempts it had.
INSERT INTO ebb_job (seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key,
                     deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free, first_start_at, last_delay,
                     last_class, last_error, fingerprint, version, progress, key_rule, args)
SELECT seq, queue, kind, priority, ?1, epoch, enqueued_at, policy, target, key, unique_key,
       CASE WHEN deadline_at >= ?1 THEN deadline_at END, batch, trace, starts,
       iif(cause = 'target_down', attempts, NULL), iif(cause = 'target_down', waits, NULL), iif(cause = 'target_down', idle, NULL),
       iif(cause = 'target_down', crashes, NULL), iif(cause = 'target_down', free, NULL),
       iif(cause = 'target_down', first_start_at, NULL), iif(cause = 'target_down', last_delay, NULL),
       last_class, last_error, fingerprint, version, progress, key_rule, args
  FROM ebb_parked WHERE seq = ?2

-- name: dead_facts
SELECT queue, unique_key FROM ebb_dead WHERE seq = ?1

-- name: parked_facts
SELECT queue, unique_key FROM ebb_parked WHERE seq = ?1

-- name: dead_end
DELETE FROM ebb_dead WHERE seq = ?1

-- name: parked_end
DELETE FROM ebb_parked WHERE seq = ?1

-- name: redrive_add
INSERT INTO ebb_redrive (filter, rate, actor, created_at, moved, cursor) VALUES (?1, ?2, ?3, ?4, 0, 0) RETURNING id

-- name: redrive
SELECT id, filter, rate, actor, created_at, done_at, moved, cursor FROM ebb_redrive WHERE id = ?1

-- name: redrive_step
UPDATE ebb_redrive SET done_at = ?2, moved = ?3, cursor = ?4 WHERE id = ?1

-- name: redrives
SELECT id, filter, rate, actor, created_at, done_at, moved, cursor FROM ebb_redrive
 ORDER BY done_at IS NOT NULL, CASE WHEN done_at IS NULL THEN id ELSE -id END
 LIMIT ?1

-- name: expired
SELECT seq, queue, 'queued', kind, priority, due_at, target, key, key_rule, first_start_at IS NOT NULL, policy FROM ebb_job AS j
 WHERE deadline_at < ?1 AND NOT EXISTS (SELECT 1 FROM ebb_lease WHERE seq = j.seq)
 ORDER BY deadline_at, seq LIMIT ?2

-- name: done_old
SELECT seq, queue, state FROM ebb_done WHERE ended_at <= ?1 ORDER BY ended_at, rowid LIMIT ?2

-- name: dead_old
SELECT seq, queue, 'failed', key FROM ebb_dead WHERE ended_at <= ?1 ORDER BY ended_at, seq LIMIT ?2

-- name: done_drop
DELETE FROM ebb_done WHERE /*seqs*/

-- name: dead_drop
DELETE FROM ebb_dead WHERE /*seqs*/

-- name: attempts_drop
DELETE FROM ebb_attempt WHERE /*seqs*/
