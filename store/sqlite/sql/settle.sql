-- name: note_table
-- Numbers that several statements of a transaction are about, and their order.
CREATE TABLE IF NOT EXISTS temp.ebb_noted (seq INTEGER PRIMARY KEY, n INTEGER NOT NULL)

-- name: unnote
DELETE FROM temp.ebb_noted

-- name: note
INSERT INTO temp.ebb_noted SELECT value, key FROM json_each(?1)

-- name: held
SELECT seq, epoch, queue, ordered, key FROM ebb_lease WHERE /*seqs*/ AND process = ?3

-- name: held_alike
-- What rows that are all alike say: their number; epoch and queue twice; 0 if
-- none has a key or was told to cancel.
SELECT count(*), min(epoch), max(epoch), min(queue), max(queue), max(coalesce(key, ordered))
  FROM ebb_lease WHERE /*seqs*/ AND process = ?3

-- name: begin_leases
-- Those of the unbegun leases that are due at ?3.
UPDATE ebb_lease SET begun = 1, leased_at = ?3
 WHERE /*seqs*/ AND begun = 0 AND EXISTS (SELECT 1 FROM ebb_job AS j WHERE j.seq = ebb_lease.seq AND j.due_at <= ?3)

-- name: begun
SELECT seq FROM ebb_lease WHERE /*seqs*/ AND begun = 1

-- name: lease_keep
-- The start has ended, the lease waits for the next.
UPDATE ebb_lease SET begun = 0, epoch = epoch + 1 WHERE seq = ?1

-- name: lease_end
DELETE FROM ebb_lease WHERE /*seqs*/

-- name: epoch
UPDATE ebb_job SET epoch = ?3 WHERE /*seqs*/

-- name: progress
UPDATE ebb_job
   SET progress = ?, starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?, held_for = ?
 WHERE seq = ? AND EXISTS (SELECT 1 FROM ebb_lease WHERE seq = ebb_job.seq AND epoch = ? AND process = ?)

-- name: remember
-- What a start leaves behind.
UPDATE ebb_job
   SET epoch = ?, due_at = coalesce(?, due_at),
       starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?, held_for = ?
 WHERE seq = ?

-- name: remember_failure
UPDATE ebb_job
   SET epoch = ?, due_at = coalesce(?, due_at),
       starts = ?, attempts = ?, waits = ?, idle = ?, crashes = ?, free = ?, first_start_at = ?, last_delay = ?, held_for = ?,
       last_class = ?, last_error = ?, fingerprint = ?, version = ?
 WHERE seq = ?

-- name: attempt_add
INSERT INTO ebb_attempt (seq, epoch, start, process, started_at, ended_at, ok, class, reason, status, error,
                         retry_after, action, cause, delay, due_at, held_by, held, counted, rule, version, stack)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- What follows settles starts that differ in a few numbers only. ?3 holds these
-- in the order of the rows, 20 digits each.

-- name: done_alike
-- Three numbers a job: its first start, the start, the end.
INSERT INTO ebb_done (seq, state, ended_at, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
                      unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
                      first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, result, held_for,
                      start, process, started_at, stopped_at, held_by, held, start_version, args)
SELECT j.seq, 'succeeded', ?4, queue, kind, priority, due_at, ?5, enqueued_at, policy, target, j.key,
       unique_key, deadline_at, batch, trace, ?6, ?7, ?8, ?9, ?10, ?11,
       CAST(substr(?3, /*n*/ * 60 + 1, 20) AS INTEGER), ?12, last_class, last_error, fingerprint, version, progress, NULL, ?18,
       ?13, ?14, CAST(substr(?3, /*n*/ * 60 + 21, 20) AS INTEGER), CAST(substr(?3, /*n*/ * 60 + 41, 20) AS INTEGER),
       ?15, ?16, ?17, args
  FROM /*rows*/

-- name: done_alike_results
-- Five numbers a job: its first start, the start, the end, and where its result
-- begins in ?19 and how long it is.
INSERT INTO ebb_done (seq, state, ended_at, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key,
                      unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
                      first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, result, held_for,
                      start, process, started_at, stopped_at, held_by, held, start_version, args)
SELECT j.seq, 'succeeded', ?4, queue, kind, priority, due_at, ?5, enqueued_at, policy, target, j.key,
       unique_key, deadline_at, batch, trace, ?6, ?7, ?8, ?9, ?10, ?11,
       CAST(substr(?3, /*n*/ * 100 + 1, 20) AS INTEGER), ?12, last_class, last_error, fingerprint, version, progress,
       substr(?19, CAST(substr(?3, /*n*/ * 100 + 61, 20) AS INTEGER), CAST(substr(?3, /*n*/ * 100 + 81, 20) AS INTEGER)), ?18,
       ?13, ?14, CAST(substr(?3, /*n*/ * 100 + 21, 20) AS INTEGER), CAST(substr(?3, /*n*/ * 100 + 41, 20) AS INTEGER),
       ?15, ?16, ?17, args
  FROM /*rows*/

-- name: again_alike
-- Five numbers a job: its first start, the start, the end, the delay, when it
-- is due.
UPDATE ebb_job AS j
   SET epoch = ?4, starts = ?5, attempts = ?6, waits = ?7, idle = ?8, crashes = ?9, free = ?10,
       last_class = ?11, last_error = ?12, fingerprint = ?13, version = ?14, held_for = ?15,
       first_start_at = CAST(substr(?3, /*n*/ * 100 + 1, 20) AS INTEGER),
       last_delay = CAST(substr(?3, /*n*/ * 100 + 61, 20) AS INTEGER),
       due_at = CAST(substr(?3, /*n*/ * 100 + 81, 20) AS INTEGER)
/*where*/

-- name: attempt_alike
-- The same five numbers.
INSERT INTO ebb_attempt (seq, epoch, started_at, ended_at, delay, due_at, start, process, ok, class, reason, status,
                         error, retry_after, action, held_by, held, counted, rule, version)
SELECT j.seq, ?4,
       CAST(substr(?3, /*n*/ * 100 + 21, 20) AS INTEGER), CAST(substr(?3, /*n*/ * 100 + 41, 20) AS INTEGER),
       CAST(substr(?3, /*n*/ * 100 + 61, 20) AS INTEGER), CAST(substr(?3, /*n*/ * 100 + 81, 20) AS INTEGER),
       ?5, ?6, 0, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17
  FROM /*rows*/

-- name: done_one
INSERT INTO ebb_done (state, ended_at, result, start, process, started_at, stopped_at, held_by, held, start_version,
                     seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
                     starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, key_rule, held_for, args)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
       seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
       starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, key_rule, held_for, args
  FROM ebb_job WHERE seq = ?

-- name: dead_one
INSERT INTO ebb_dead (cause, ended_at,
                     seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
                     starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, key_rule, held_for, args)
SELECT ?, ?,
       seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
       starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, key_rule, held_for, args
  FROM ebb_job WHERE seq = ?

-- name: parked_one
INSERT INTO ebb_parked (cause, config,
                     seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
                     starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, key_rule, held_for, args)
SELECT ?, ?,
       seq, queue, kind, priority, due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace,
       starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, key_rule, held_for, args
  FROM ebb_job WHERE seq = ?

-- name: job_end
DELETE FROM ebb_job WHERE /*seqs*/
