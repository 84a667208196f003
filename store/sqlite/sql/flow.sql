-- name: queue_limit
INSERT INTO ebb_queue (name, concurrency, rate) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET concurrency = excluded.concurrency, rate = excluded.rate

-- name: kind_pause
INSERT INTO ebb_paused_kind (kind) VALUES (?1) ON CONFLICT DO NOTHING

-- name: kind_resume
DELETE FROM ebb_paused_kind WHERE kind = ?1

-- name: ending
-- What waits for the target ?1 and was due by ?2: of the policy ?3, if any;
-- retries or first attempts as ?4 says, NULL = both; never held before.
SELECT seq, queue, 'queued', kind, priority, due_at, target, key, key_rule, first_start_at IS NOT NULL FROM ebb_job AS j
 WHERE target = ?1 AND due_at <= ?2 AND (?3 IS NULL OR policy = ?3) AND (?4 IS NULL OR (first_start_at IS NOT NULL) = ?4)
   AND held_for IS NULL AND NOT EXISTS (SELECT 1 FROM ebb_lease WHERE seq = j.seq)
 ORDER BY seq LIMIT ?5

-- name: ending_seqs
-- Of these alone, whatever they were held for.
SELECT seq, queue, 'queued', kind, priority, due_at, target, key, key_rule, first_start_at IS NOT NULL FROM ebb_job AS j
 WHERE seq IN (SELECT value FROM json_each(?6))
   AND +target = ?1 AND due_at <= ?2 AND (?3 IS NULL OR policy = ?3) AND (?4 IS NULL OR (first_start_at IS NOT NULL) = ?4)
   AND NOT EXISTS (SELECT 1 FROM ebb_lease WHERE seq = j.seq)
 ORDER BY seq LIMIT ?5

-- name: held_before
SELECT * FROM ebb_live_view WHERE target = ?1 AND seq > ?2 AND held_for > 0 AND state = 'queued' ORDER BY seq LIMIT ?3

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
