-- name: held_range
SELECT seq, epoch, queue, begun FROM ebb_job WHERE seq BETWEEN ?1 AND ?2 AND +process = ?3

-- name: held_list
SELECT j.seq, j.epoch, j.queue, j.begun
  FROM json_each(?1) AS r CROSS JOIN ebb_job AS j ON j.seq = r.value
 WHERE +j.process = ?2

-- name: orders
SELECT seq FROM ebb_order WHERE process = ?1

-- name: order_end
DELETE FROM ebb_order WHERE seq = ?1

-- name: begin_lease
UPDATE ebb_job SET begun = 1 WHERE seq = ?1

-- name: release_lease
UPDATE ebb_job SET process = 0, leased_at = NULL, begun = 0 WHERE seq = ?1

-- name: progress
UPDATE ebb_job
   SET progress = ?, starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?
 WHERE seq = ? AND epoch = ? AND process = ? AND process <> 0

-- name: remember
-- The history after a start, before the row moves on or waits again.
UPDATE ebb_job
   SET starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?
 WHERE seq = ?

-- name: last_failure
UPDATE ebb_job SET last_class = ?, last_error = ?, fingerprint = ?, version = ? WHERE seq = ?

-- name: wait_again
UPDATE ebb_job
   SET process = 0, leased_at = NULL, begun = 0, due_at = ?,
       starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?
 WHERE seq = ?

-- name: wait_again_failed
UPDATE ebb_job
   SET process = 0, leased_at = NULL, begun = 0, due_at = ?,
       starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?,
       last_class = ?, last_error = ?, fingerprint = ?, version = ?
 WHERE seq = ?

-- name: attempt_add
INSERT INTO ebb_attempt (seq, epoch, start, process, started_at, ended_at, ok, class, reason, status, error,
                         retry_after, action, cause, delay, due_at, held_by, held, counted, rule, version, stack)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: done_alike
-- Succeeded jobs whose starts differ only in their times. ?1 is the array of
-- sequence numbers; ?2 holds three instants of 20 digits for each: first
-- start, start, end.
INSERT INTO ebb_done (seq, state, ended_at, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
                      unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
                      first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, result,
                      start, process, started_at, stopped_at, held_by, held, start_version, args)
SELECT j.seq, 'succeeded', ?3, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, j.key,
       unique_key, deadline_at, batch, trace, ?4, ?5, ?6, ?7, ?8, ?9,
       CAST(substr(?2, r.key * 60 + 1, 20) AS INTEGER), ?10, last_class, last_error, fingerprint, version, progress, NULL,
       ?11, process, CAST(substr(?2, r.key * 60 + 21, 20) AS INTEGER), CAST(substr(?2, r.key * 60 + 41, 20) AS INTEGER),
       ?12, ?13, ?14, args
  FROM json_each(?1) AS r CROSS JOIN ebb_job AS j ON j.seq = r.value

-- name: done_one
INSERT INTO ebb_done (state, ended_at, result, start, process, started_at, stopped_at, held_by, held, start_version,
                      seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
                      unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
                      first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
       seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
       unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
       first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args
  FROM ebb_job WHERE seq = ?

-- name: dead_one
INSERT INTO ebb_dead (cause, ended_at, seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
                      unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
                      first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args)
SELECT ?1, ?2, seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
       unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
       first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args
  FROM ebb_job WHERE seq = ?3

-- name: parked_one
INSERT INTO ebb_parked (cause, config, seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
                        unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
                        first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args)
SELECT ?1, ?2, seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
       unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
       first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args
  FROM ebb_job WHERE seq = ?3

-- name: job_end
DELETE FROM ebb_job WHERE seq = ?1

-- name: job_end_range
DELETE FROM ebb_job WHERE seq BETWEEN ?1 AND ?2

-- name: job_end_list
DELETE FROM ebb_job WHERE seq IN (SELECT value FROM json_each(?1))
