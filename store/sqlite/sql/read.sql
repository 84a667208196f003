-- name: job
SELECT * FROM ebb_all_view WHERE seq = ?1

-- name: attempts
SELECT seq, epoch, start, process, started_at, ended_at, ok, class, reason, status, error,
       retry_after, action, cause, delay, due_at, held_by, held, counted, rule, version, stack
  FROM ebb_attempt WHERE seq = ?1 ORDER BY epoch

-- name: done_start
SELECT epoch, start, process, started_at, stopped_at, held_by, held, start_version
  FROM ebb_done WHERE seq = ?1 AND start IS NOT NULL

-- name: queues
SELECT name, paused, strict, concurrency, rate FROM ebb_queue ORDER BY name

-- name: tallies
SELECT queue, state, n FROM ebb_tally

-- name: recent
-- What ended at or after ?1: at most ?2 rows of each table, by its index.
SELECT seq, state, ended_at, CASE WHEN coalesce(starts, 0) > 1 THEN enqueued_at ELSE max(enqueued_at, due_at) END, queue, policy, starts
  FROM (SELECT * FROM (SELECT seq, state, ended_at, enqueued_at, due_at, queue, policy, starts
                         FROM ebb_done WHERE ended_at >= ?1 ORDER BY ended_at DESC LIMIT ?2)
        UNION ALL
        SELECT * FROM (SELECT seq, 'failed', ended_at, enqueued_at, due_at, queue, policy, starts
                         FROM ebb_dead WHERE ended_at >= ?1 ORDER BY ended_at DESC LIMIT ?2))
 ORDER BY ended_at DESC, seq DESC
 LIMIT ?2

-- name: next_due
-- The earliest due time of the kinds ?2 in the queues ?1: one probe for each
-- priority of each kind.
SELECT min((SELECT min(due_at) FROM ebb_ready WHERE queue = q.value AND kind = k.value AND priority = p.value))
  FROM json_each(?1) AS q CROSS JOIN json_each(?2) AS k CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9]') AS p

-- name: queues_due
-- The earliest due time of each queue of ?1, hopping from kind to kind and
-- probing each priority.
WITH RECURSIVE lane (queue, kind) AS (
    SELECT q.value, (SELECT min(kind) FROM ebb_ready WHERE queue = q.value) FROM json_each(?1) AS q
    UNION ALL
    SELECT queue, (SELECT min(kind) FROM ebb_ready WHERE queue = lane.queue AND kind > lane.kind)
      FROM lane WHERE kind IS NOT NULL
)
SELECT lane.queue, min((SELECT min(due_at) FROM ebb_ready
                         WHERE queue = lane.queue AND kind = lane.kind AND priority = p.value))
  FROM lane CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9]') AS p
 WHERE lane.kind IS NOT NULL
 GROUP BY lane.queue

-- name: running_queues
SELECT name FROM ebb_queue WHERE paused = 0 AND name IN (SELECT value FROM json_each(?1))

-- name: ahead
-- ?1 queue, ?2 priority, ?3 due, ?4 sequence, ?5 now, ?6 limit
WITH RECURSIVE kinds (kind) AS (
    SELECT min(kind) FROM ebb_ready WHERE queue = ?1
    UNION ALL
    SELECT (SELECT min(kind) FROM ebb_ready WHERE queue = ?1 AND kind > kinds.kind) FROM kinds WHERE kind IS NOT NULL
)
SELECT count(*) FROM (
    SELECT 1
      FROM kinds CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9]') AS p
           CROSS JOIN ebb_ready AS r ON r.queue = ?1 AND r.kind = kinds.kind AND r.priority = p.value
           CROSS JOIN ebb_job AS j ON j.seq = r.seq
     WHERE p.value <= ?2 AND r.due_at <= ?5
       AND (p.value < ?2 OR (r.due_at, r.seq) < (?3, ?4))
       AND (j.deadline_at IS NULL OR j.deadline_at >= ?5)
     LIMIT ?6
)

-- name: audit
SELECT at, actor, act, what, detail FROM ebb_audit ORDER BY id DESC LIMIT ?1
