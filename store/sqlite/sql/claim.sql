-- name: queue_facts
SELECT paused, strict,
       coalesce((SELECT n FROM ebb_tally WHERE queue = ?1 AND state = 'running'), 0)
  FROM ebb_queue WHERE name = ?1

-- name: queue_kinds
-- Hops from kind to kind along the index; no row is walked over.
WITH RECURSIVE kinds (kind) AS (
    SELECT min(kind) FROM ebb_job WHERE process = 0 AND queue = ?1
    UNION ALL
    SELECT (SELECT min(kind) FROM ebb_job WHERE process = 0 AND queue = ?1 AND kind > kinds.kind)
      FROM kinds WHERE kind IS NOT NULL
)
SELECT kind FROM kinds WHERE kind IS NOT NULL

-- name: lanes
-- Which of the kinds ?2 wait in the queue ?1 with something due at ?3, and at
-- which priorities: one probe of the index each.
SELECT p.value, k.value
  FROM json_each('[0,1,2,3,4,5,6,7,8,9]') AS p CROSS JOIN json_each(?2) AS k
 WHERE EXISTS (SELECT 1 FROM ebb_job
                WHERE process = 0 AND queue = ?1 AND kind = k.value AND priority = p.value AND due_at <= ?3)

-- name: lane
-- The least rows of one queue, kind and priority.
SELECT seq, queue, kind, priority, due_at, process, epoch, leased_at, begun, enqueued_at, policy, target, key,
       unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free, first_start_at, last_delay,
       last_class, last_error, fingerprint, version, progress, args
  FROM ebb_job
 WHERE process = 0 AND queue = ?1 AND kind = ?2 AND priority = ?3 AND due_at <= ?4
   AND (deadline_at IS NULL OR deadline_at >= ?4)
 ORDER BY due_at, seq
 LIMIT ?5

-- name: lease_range
UPDATE ebb_job SET process = ?1, leased_at = ?2, epoch = epoch + 1, begun = crashes < ?3
 WHERE seq BETWEEN ?4 AND ?5

-- name: lease_list
UPDATE ebb_job SET process = ?1, leased_at = ?2, epoch = epoch + 1, begun = crashes < ?3
 WHERE seq IN (SELECT value FROM json_each(?4))
