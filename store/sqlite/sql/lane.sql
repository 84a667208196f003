-- Lanes: what waits for targets. A part of a lane is (target, queue, kind,
-- retry).

-- name: looks
-- The looks that jobs bring which are about to wait in lanes: those with a
-- target, or of a limited queue (?5), without a key, or whose key does not
-- block them (?4). ?3 is now. The look of an empty part means nothing.
INSERT INTO ebb_lane (target, queue, kind, retry, look_at)
SELECT coalesce(target, 'queue:' || queue), queue, kind, first_start_at IS NOT NULL, max(min(due_at), ?3)
  FROM ebb_job
 WHERE /*seqs*/ AND (target IS NOT NULL OR ?5) AND (key IS NULL OR ?4)
 GROUP BY 1, 2, 3, 4
ON CONFLICT DO UPDATE
   SET look_at = CASE WHEN EXISTS (SELECT 1 FROM ebb_wait AS w WHERE w.lane = ebb_lane.id)
                      THEN min(look_at, excluded.look_at) ELSE excluded.look_at END

-- name: wait
-- The jobs themselves; ?3 limited queue, ?4 keys do not block.
INSERT INTO ebb_wait
SELECT l.id, priority, due_at, seq, deadline_at
  FROM ebb_job AS j CROSS JOIN ebb_lane AS l
    ON l.target = coalesce(j.target, 'queue:' || j.queue) AND l.queue = j.queue AND l.kind = j.kind AND l.retry = (first_start_at IS NOT NULL)
 WHERE /*seqs*/ AND (j.target IS NOT NULL OR ?3) AND (key IS NULL OR ?4)

-- name: unwait
DELETE FROM ebb_wait
 WHERE lane = (SELECT id FROM ebb_lane WHERE target = ?1 AND queue = ?2 AND kind = ?3 AND retry = ?4)
   AND priority = ?5 AND due_at = ?6 AND seq = ?7

-- name: unwait_to
-- What may start at ?5, of a part and priority, up to and including a row.
DELETE FROM ebb_wait
 WHERE lane = ?1 AND priority = ?2 AND (due_at, seq) <= (?3, ?4) AND (deadline_at IS NULL OR deadline_at >= ?5)

-- name: found
-- The lanes of the queue ?1 that discovery may look at by ?2, with their gates,
-- in their order, once for each part of the kinds ?3, of first attempts (?4) or
-- retries (?5); read as far as lanes are wanted.
SELECT l.target, g.open_at, g.room
  FROM ebb_lane AS l LEFT JOIN ebb_gate AS g ON g.target = l.target
 WHERE l.queue = ?1 AND l.look_at <= ?2 AND l.kind IN (SELECT value FROM json_each(?3)) AND iif(l.retry, ?5, ?4)
 ORDER BY l.look_at, l.target

-- name: lane_shut
-- What such a search would find of the lane ?1 again rests until ?7.
UPDATE ebb_lane INDEXED BY ebb_lane_name SET look_at = max(look_at, ?7)
 WHERE target = ?1 AND queue = ?2 AND look_at <= ?3 AND kind IN (SELECT value FROM json_each(?4)) AND iif(retry, ?6, ?5)

-- name: parts
-- The parts of the lanes ?1 in the queue ?2 whose look has come by ?3; NULL =
-- all.
SELECT t.key, l.kind, l.retry, l.id
  FROM json_each(?1) AS t CROSS JOIN ebb_lane AS l INDEXED BY ebb_lane_name ON l.target = t.value AND l.queue = ?2
 WHERE ?3 IS NULL OR l.look_at <= ?3

-- name: part
-- What may start of one part at ?2, in its order, read as far as it is taken.
-- No LIMIT: SQLite plans a statement anew whenever that parameter is bound.
SELECT w.priority, w.due_at, w.seq
  FROM json_each('[0,1,2,3,4,5,6,7,8,9]') AS p
       CROSS JOIN ebb_wait AS w
          ON w.lane = ?1 AND w.priority = p.value AND w.due_at <= ?2
 WHERE w.deadline_at IS NULL OR w.deadline_at >= ?2

-- name: taken
-- What is not known of jobs that are taken out of lanes, in the order in which
-- they are named.
SELECT j.seq, epoch, enqueued_at, policy, j.key, unique_key, deadline_at, batch, trace, args FROM /*rows*/

-- name: key_rules
SELECT j.seq, key_rule FROM /*rows*/

-- name: lane_fold
-- Forgets a part that is empty.
DELETE FROM ebb_lane WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM ebb_wait WHERE lane = ?1)

-- name: look_next
-- Nothing of a part can start at ?2: the look goes to when something can; ?3 =
-- never.
UPDATE ebb_lane AS l
   SET look_at = max(look_at, coalesce(
       (SELECT min((SELECT w.due_at FROM ebb_wait AS w
                     WHERE w.lane = l.id AND w.priority = p.value
                       AND (w.deadline_at IS NULL OR w.deadline_at >= ?2)
                     ORDER BY w.due_at LIMIT 1))
          FROM json_each('[0,1,2,3,4,5,6,7,8,9]') AS p), ?3))
 WHERE id = ?1

-- name: look_after
-- A part rests until ?2.
UPDATE ebb_lane SET look_at = max(look_at, ?2) WHERE id = ?1

-- name: lane_hold
-- ?3 retries alone, ?4 until
UPDATE ebb_lane SET look_at = max(look_at, ?4) WHERE target = ?1 AND queue = ?2 AND (retry = 1 OR NOT ?3)

-- name: lane_wake
-- All lanes of the target ?1 from ?2 on, but not before anything is due.
UPDATE ebb_lane AS l
   SET look_at = max(?2, coalesce(
       (SELECT min((SELECT min(w.due_at) FROM ebb_wait AS w
                     WHERE w.lane = l.id AND w.priority = p.value))
          FROM json_each('[0,1,2,3,4,5,6,7,8,9]') AS p), ?2))
 WHERE target = ?1

-- name: next_look
-- The earliest look of the kinds ?2 in the queues ?1; ?3 = never.
SELECT min((SELECT l.look_at FROM ebb_lane AS l
             WHERE l.queue = q.value AND l.look_at < ?3 AND l.kind IN (SELECT value FROM json_each(?2))
               AND EXISTS (SELECT 1 FROM ebb_wait AS w
                            WHERE w.lane = l.id)
             ORDER BY l.look_at LIMIT 1))
  FROM json_each(?1) AS q

-- name: lanes_due
-- The earliest due time in the lanes of each queue of ?1. Where the first and
-- the last job of a part are of one priority, as mostly, the first is the
-- earliest; else each priority is asked.
SELECT l.queue, min(iif(
       (SELECT w.priority FROM ebb_wait AS w
         WHERE w.lane = l.id
         ORDER BY w.priority LIMIT 1)
       = (SELECT w.priority FROM ebb_wait AS w
           WHERE w.lane = l.id
           ORDER BY w.priority DESC LIMIT 1),
       (SELECT w.due_at FROM ebb_wait AS w
         WHERE w.lane = l.id
         ORDER BY w.priority, w.due_at LIMIT 1),
       (SELECT min((SELECT min(w.due_at) FROM ebb_wait AS w
                     WHERE w.lane = l.id AND w.priority = p.value))
          FROM json_each('[0,1,2,3,4,5,6,7,8,9]') AS p)))
  FROM json_each(?1) AS q CROSS JOIN ebb_lane AS l ON l.queue = q.value
 GROUP BY l.queue

-- name: ahead_lane
-- ?1 queue, ?2 priority, ?3 due, ?4 sequence, ?5 now, ?6 limit, ?7 target
SELECT count(*) FROM (
    SELECT 1
      FROM ebb_lane AS l CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9]') AS p
           CROSS JOIN ebb_wait AS w
              ON w.lane = l.id AND w.priority = p.value
     WHERE l.target = ?7 AND l.queue = ?1 AND p.value <= ?2 AND w.due_at <= ?5
       AND (p.value < ?2 OR (w.due_at, w.seq) < (?3, ?4))
       AND (w.deadline_at IS NULL OR w.deadline_at >= ?5)
     LIMIT ?6
)

-- name: lane_sizes
-- The parts of the target ?1, counted up to ?2.
SELECT l.queue, l.retry, l.look_at,
       (SELECT count(*) FROM (SELECT 1 FROM ebb_wait AS w
                               WHERE w.lane = l.id LIMIT ?2))
  FROM ebb_lane AS l
 WHERE l.target = ?1
 ORDER BY l.queue

-- name: queue_waiting
-- Everything that waits in the queue and is not blocked, in its order.
SELECT seq FROM ebb_ready WHERE queue = ?1
UNION ALL
SELECT w.seq FROM ebb_lane AS l CROSS JOIN ebb_wait AS w
    ON w.lane = l.id
 WHERE l.queue = ?1
 ORDER BY 1

-- name: queue_unready
DELETE FROM ebb_ready WHERE queue = ?1

-- name: queue_unwait
DELETE FROM ebb_wait WHERE lane IN (SELECT id FROM ebb_lane WHERE queue = ?1)

-- name: queue_unlane
DELETE FROM ebb_lane WHERE queue = ?1
