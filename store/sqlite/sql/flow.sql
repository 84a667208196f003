-- name: queue_limit
INSERT INTO ebb_queue (name, concurrency, rate) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET concurrency = excluded.concurrency, rate = excluded.rate

-- name: kind_pause
INSERT INTO ebb_paused_kind (kind) VALUES (?1) ON CONFLICT DO NOTHING

-- name: kind_resume
DELETE FROM ebb_paused_kind WHERE kind = ?1

-- name: ending
-- What waits for the target ?1 and was due by ?2: of the policy ?3, if any;
-- retries or first attempts as ?4 says, NULL = both; never held before. It
-- waits in lanes, behind heads, or in strict queues.
WITH found (seq) AS (
    SELECT w.seq FROM ebb_lane AS l CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9]') AS p
           CROSS JOIN ebb_wait AS w
              ON w.lane = l.id AND w.priority = p.value AND w.due_at <= ?2
     WHERE l.target = ?1 AND (?4 IS NULL OR l.retry = ?4)
    UNION ALL
    SELECT seq FROM ebb_key WHERE target = ?1 AND head = 0
    UNION ALL
    SELECT r.seq FROM ebb_queue AS q CROSS JOIN ebb_ready AS r ON r.queue = q.name WHERE q.strict
)
SELECT j.seq, queue, 'queued', kind, priority, due_at, target, key, key_rule, first_start_at IS NOT NULL, policy
  FROM found CROSS JOIN ebb_job AS j ON j.seq = found.seq
 WHERE target = ?1 AND due_at <= ?2 AND (?3 IS NULL OR policy = ?3) AND (?4 IS NULL OR (first_start_at IS NOT NULL) = ?4)
   AND held_for IS NULL AND NOT EXISTS (SELECT 1 FROM ebb_lease AS l WHERE l.seq = j.seq)
 ORDER BY j.seq LIMIT ?5

-- name: ending_seqs
-- Of these alone, and (?7) whatever they were held for.
SELECT seq, queue, 'queued', kind, priority, due_at, target, key, key_rule, first_start_at IS NOT NULL, policy FROM ebb_job AS j
 WHERE seq IN (SELECT value FROM json_each(?6))
   AND target = ?1 AND due_at <= ?2 AND (?3 IS NULL OR policy = ?3) AND (?4 IS NULL OR (first_start_at IS NOT NULL) = ?4)
   AND (?7 OR held_for IS NULL) AND NOT EXISTS (SELECT 1 FROM ebb_lease WHERE seq = j.seq)
 ORDER BY seq LIMIT ?5

-- name: held_before
-- What waits for the target ?1 above the sequence number ?2 and was held.
WITH found (seq) AS (
    SELECT w.seq FROM ebb_lane AS l CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9]') AS p
           CROSS JOIN ebb_wait AS w
              ON w.lane = l.id AND w.priority = p.value
     WHERE l.target = ?1 AND w.seq > ?2
    UNION ALL
    SELECT seq FROM ebb_key WHERE target = ?1 AND head = 0 AND seq > ?2
    UNION ALL
    SELECT r.seq FROM ebb_queue AS q CROSS JOIN ebb_ready AS r ON r.queue = q.name WHERE q.strict AND r.seq > ?2
)
SELECT v.* FROM found CROSS JOIN ebb_live_view AS v ON v.seq = found.seq
 WHERE v.target = ?1 AND v.held_for > 0 AND v.state = 'queued'
 ORDER BY v.seq LIMIT ?3

-- name: periodic_put
INSERT INTO ebb_periodic (name, cron, zone, missed, job, next_at, last_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO UPDATE
   SET next_at = CASE WHEN cron = excluded.cron AND zone = excluded.zone THEN next_at ELSE excluded.next_at END,
       last_at = CASE WHEN cron = excluded.cron AND zone = excluded.zone THEN last_at ELSE excluded.last_at END,
       cron = excluded.cron, zone = excluded.zone, missed = excluded.missed, job = excluded.job

-- name: periodic_drop
DELETE FROM ebb_periodic WHERE name = ?1

-- name: periodics
SELECT name, cron, zone, missed, job, next_at, last_at FROM ebb_periodic ORDER BY name

-- name: periodic_next
SELECT next_at FROM ebb_periodic WHERE name = ?1

-- name: periodic_fire
UPDATE ebb_periodic SET next_at = ?2, last_at = coalesce(?3, last_at) WHERE name = ?1
