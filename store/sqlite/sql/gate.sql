-- name: gates
-- Those of the targets ?1, each with its place among them.
SELECT t.key, version, state, grants, open_at, room, disabled, policy
  FROM json_each(?1) AS t CROSS JOIN ebb_gate AS g ON g.target = t.value

-- name: gate_versions
-- The same, their versions alone.
SELECT t.key, version FROM json_each(?1) AS t CROSS JOIN ebb_gate AS g ON g.target = t.value

-- name: gate_add
INSERT INTO ebb_gate (target, version, open_at, room, grants, disabled, policy, state) VALUES (?1, 1, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO NOTHING

-- name: gate_swap
UPDATE ebb_gate SET version = version + 1, open_at = ?3, room = ?4, grants = ?5, disabled = ?6, policy = ?7, state = ?8
 WHERE target = ?1 AND version = ?2

-- name: gates_granted
-- The targets of which anybody holds permits, and who. There are few.
SELECT target, grants FROM ebb_gate WHERE grants IS NOT NULL ORDER BY target

-- name: targets
-- Those above ?1 that have a gate or waiting work.
SELECT target FROM ebb_gate WHERE target > ?1
UNION
SELECT l.target FROM ebb_lane AS l
 WHERE l.target > ?1 AND EXISTS (SELECT 1 FROM ebb_wait AS w
                                  WHERE w.lane = l.id)
 ORDER BY 1 LIMIT ?2
