-- name: queue_facts
SELECT paused, strict,
       coalesce((SELECT n FROM ebb_tally WHERE queue = ?1 AND state = 'running'), 0),
       concurrency, rate, EXISTS (SELECT 1 FROM ebb_paused_kind)
  FROM ebb_queue WHERE name = ?1

-- name: queue_kinds
-- Hops from kind to kind along the order; no row is walked over.
WITH RECURSIVE kinds (kind) AS (
    SELECT min(kind) FROM ebb_ready WHERE queue = ?1
    UNION ALL
    SELECT (SELECT min(kind) FROM ebb_ready WHERE queue = ?1 AND kind > kinds.kind) FROM kinds WHERE kind IS NOT NULL
)
SELECT kind FROM kinds WHERE kind IS NOT NULL

-- name: lanes
-- Which of the kinds ?2 wait in the queue ?1 with something due at ?3, and at
-- which priorities: one probe each.
SELECT p.value, k.value
  FROM json_each('[0,1,2,3,4,5,6,7,8,9]') AS p CROSS JOIN json_each(?2) AS k
 WHERE EXISTS (SELECT 1 FROM ebb_ready
                WHERE queue = ?1 AND kind = k.value AND priority = p.value AND due_at <= ?3)

-- name: lane
-- The due rows of one queue, kind and priority in their order, read as far as
-- they are taken.
SELECT r.seq, r.due_at, epoch, enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace, args
  FROM ebb_ready AS r CROSS JOIN ebb_job AS j ON j.seq = r.seq
 WHERE r.queue = ?1 AND r.kind = ?2 AND r.priority = ?3 AND r.due_at <= ?4
 ORDER BY r.due_at, r.seq

-- name: past
-- What earlier leases left behind: most jobs never had one.
SELECT j.seq, starts, attempts, waits, idle, crashes, free, first_start_at, last_delay, last_class, last_error,
       fingerprint, version, progress, held_for
  FROM /*rows*/

-- name: unready_to
-- All of a lane up to and including a row.
DELETE FROM ebb_ready WHERE queue = ?1 AND kind = ?2 AND priority = ?3 AND (due_at, seq) <= (?4, ?5)

-- name: lease
INSERT INTO ebb_lease (seq, process, epoch, leased_at, begun, queue)
SELECT seq, ?3, coalesce(epoch, 0) + 1, ?4, coalesce(crashes, 0) < ?5, queue FROM ebb_job WHERE /*seqs*/

-- name: lease_unread
-- The same for jobs of which no more is known; their keys are written down too.
INSERT INTO ebb_lease (seq, process, epoch, leased_at, begun, queue, key)
SELECT seq, ?3, coalesce(epoch, 0) + 1, ?4, coalesce(crashes, 0) < ?5, queue, key FROM ebb_job WHERE /*seqs*/

-- name: lease_run
-- Leases of which all is known but the numbers: those of the jobs ?1 to ?2.
INSERT INTO ebb_lease (seq, process, epoch, leased_at, begun, queue)
SELECT seq, ?3, ?4, ?5, ?6, ?7 FROM ebb_job WHERE seq BETWEEN ?1 AND ?2

-- name: lease_list
-- The same for the numbers ?1.
INSERT INTO ebb_lease (seq, process, epoch, leased_at, begun, queue)
SELECT value, ?2, ?3, ?4, ?5, ?6 FROM json_each(?1)

-- name: lease_keys
-- The keys of those leases that have one.
UPDATE ebb_lease SET key = (SELECT j.key FROM ebb_job AS j WHERE j.seq = ebb_lease.seq) WHERE /*seqs*/

-- name: paused_kinds
SELECT kind FROM ebb_paused_kind ORDER BY kind
