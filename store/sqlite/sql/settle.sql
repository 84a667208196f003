-- name: held_range
SELECT seq, epoch, queue, begun, ordered FROM ebb_lease WHERE seq BETWEEN ?1 AND ?2 AND process = ?3

-- name: held_list
SELECT l.seq, l.epoch, l.queue, l.begun, l.ordered
  FROM json_each(?1) AS r CROSS JOIN ebb_lease AS l ON l.seq = r.value
 WHERE l.process = ?2

-- name: begin_lease
UPDATE ebb_lease SET begun = 1 WHERE seq = ?1

-- name: lease_end_range
DELETE FROM ebb_lease WHERE seq BETWEEN ?1 AND ?2

-- name: lease_end_list
DELETE FROM ebb_lease WHERE seq IN (SELECT value FROM json_each(?1))

-- name: epoch
UPDATE ebb_job SET epoch = ?2 WHERE seq = ?1

-- name: progress
UPDATE ebb_job
   SET progress = ?, starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?
 WHERE seq = ? AND EXISTS (SELECT 1 FROM ebb_lease WHERE seq = ebb_job.seq AND epoch = ? AND process = ?)

-- name: remember
-- What a start leaves behind.
UPDATE ebb_job
   SET epoch = ?, due_at = coalesce(?, due_at),
       starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?
 WHERE seq = ?

-- name: remember_failure
UPDATE ebb_job
   SET epoch = ?, due_at = coalesce(?, due_at),
       starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?,
       last_class = ?, last_error = ?, fingerprint = ?, version = ?
 WHERE seq = ?

-- name: attempt_add
INSERT INTO ebb_attempt (seq, epoch, start, process, started_at, ended_at, ok, class, reason, status, error,
                         retry_after, action, cause, delay, due_at, held_by, held, counted, rule, version, stack)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- What follows settles starts that differ in a few numbers only. ?1 is the
-- array of their sequence numbers; ?2 holds the numbers, 20 digits each.

-- name: done_alike
-- Three numbers a job: its first start, the start, the end.
INSERT INTO ebb_done (seq, state, ended_at, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
                      unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
                      first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, result,
                      start, process, started_at, stopped_at, held_by, held, start_version, args)
SELECT j.seq, 'succeeded', ?3, queue, kind, priority, due_at, ?4, enqueued_at, policy, target, j.key,
       unique_key, deadline_at, batch, trace, ?5, ?6, ?7, ?8, ?9, ?10,
       CAST(substr(?2, r.key * 60 + 1, 20) AS INTEGER), ?11, last_class, last_error, fingerprint, version, progress, NULL,
       ?12, ?13, CAST(substr(?2, r.key * 60 + 21, 20) AS INTEGER), CAST(substr(?2, r.key * 60 + 41, 20) AS INTEGER),
       ?14, ?15, ?16, args
  FROM json_each(?1) AS r CROSS JOIN ebb_job AS j ON j.seq = r.value

-- name: again_alike
-- Five numbers a job: its first start, the start, the end, the delay, when it
-- is due.
UPDATE ebb_job
   SET epoch = ?3, starts = ?4, attempts = ?5, waits = ?6, idle = ?7, crashes = ?8, free = ?9,
       last_class = ?10, last_error = ?11, fingerprint = ?12, version = ?13,
       first_start_at = CAST(substr(?2, r.key * 100 + 1, 20) AS INTEGER),
       last_delay = CAST(substr(?2, r.key * 100 + 61, 20) AS INTEGER),
       due_at = CAST(substr(?2, r.key * 100 + 81, 20) AS INTEGER)
  FROM json_each(?1) AS r
 WHERE ebb_job.seq = r.value

-- name: attempt_alike
-- The same five numbers.
INSERT INTO ebb_attempt (seq, epoch, started_at, ended_at, delay, due_at, start, process, ok, class, reason, status,
                         error, retry_after, action, cause, held_by, held, counted, rule, version)
SELECT value, ?3,
       CAST(substr(?2, key * 100 + 21, 20) AS INTEGER), CAST(substr(?2, key * 100 + 41, 20) AS INTEGER),
       CAST(substr(?2, key * 100 + 61, 20) AS INTEGER), CAST(substr(?2, key * 100 + 81, 20) AS INTEGER),
       ?4, ?5, 0, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17
  FROM json_each(?1)

-- name: done_one
INSERT INTO ebb_done (state, ended_at, result, start, process, started_at, stopped_at, held_by, held, start_version,
                     seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
                     starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
       seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
       starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args
  FROM ebb_job WHERE seq = ?

-- name: dead_one
INSERT INTO ebb_dead (cause, ended_at,
                     seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
                     starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args)
SELECT ?, ?,
       seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
       starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args
  FROM ebb_job WHERE seq = ?

-- name: parked_one
INSERT INTO ebb_parked (cause, config,
                     seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
                     starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args)
SELECT ?, ?,
       seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
       starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args
  FROM ebb_job WHERE seq = ?

-- name: job_end
DELETE FROM ebb_job WHERE seq = ?1

-- name: job_end_range
DELETE FROM ebb_job WHERE seq BETWEEN ?1 AND ?2

-- name: job_end_list
DELETE FROM ebb_job WHERE seq IN (SELECT value FROM json_each(?1))
