-- fragment: gate
g.target, g.version, g.state, g.grants, g.open_at, g.room, g.disabled, g.policy

-- name: gates
SELECT /*gate*/ FROM ebb_gate g WHERE g.target = ANY ($1::text[])

-- name: gates_of_turn
-- Of the targets $1, those that have another version than $2.
SELECT /*gate*/
  FROM unnest($1::text[], $2::bigint[]) AS a (target, known)
  JOIN ebb_gate g ON g.target = a.target AND g.version <> a.known

-- name: gates_of_lanes
-- Of the lanes that were discovered.
SELECT /*gate*/
  FROM ebb_gate g
 WHERE g.target = ANY (coalesce(nullif(current_setting('ebb.lanes', true), ''), '{}')::text[])

-- name: targets
-- $1 after which, $2 how many. They are found one after the other, as far as are
-- wanted: a page is as cheap with a hundred thousand targets as with a thousand.
-- One probe of the index for each part: as EXISTS it was a hash of all jobs until
-- the tables were analysed, 3.6 s of a million.
WITH RECURSIVE name AS (
    SELECT least((SELECT min(target) FROM ebb_gate WHERE target > $1), (SELECT min(target) FROM ebb_look WHERE target > $1)) AS target
    UNION ALL
    SELECT least((SELECT min(target) FROM ebb_gate WHERE target > name.target), (SELECT min(target) FROM ebb_look WHERE target > name.target))
      FROM name
     WHERE name.target IS NOT NULL
)
SELECT name.target, g.version, g.state, g.grants, g.open_at, g.room, g.disabled, g.policy
  FROM name
  LEFT JOIN LATERAL (SELECT * FROM ebb_gate WHERE target = name.target LIMIT 1) AS g ON true
 CROSS JOIN LATERAL (
    SELECT FROM (SELECT 1) AS one WHERE g.target IS NOT NULL
    UNION ALL
    (SELECT
       FROM (SELECT DISTINCT queue_number, target, kind, retrying, priority FROM ebb_look WHERE target = name.target) AS p
      CROSS JOIN LATERAL (SELECT FROM ebb_job WHERE /*of_part*/ LIMIT 1) AS waits)
     LIMIT 1) AS there
 LIMIT $2

-- name: swap
-- $1 process, NULL = an operator, then by column, sorted by $2 target. In that
-- order rows are locked: no two swaps wait for each other. Answers who was
-- swapped.
UPDATE ebb_gate g
   SET version = g.version + 1, open_at = s.open_at, room = s.room, state = s.state, grants = s.grants, disabled = s.disabled,
       policy = s.policy
  FROM unnest($2::text[], $3::bigint[], $4::timestamptz[], $5::int[], $6::text[], $7::text[], $8::text[], $9::text[])
           AS s (target, version, open_at, room, state, grants, disabled, policy)
 WHERE g.target = s.target AND g.version = s.version AND ($1::bigint IS NULL OR EXISTS (SELECT FROM ebb_process WHERE id = $1))
RETURNING g.target

-- name: swap_new
-- As swap, for gates that have no row yet.
INSERT INTO ebb_gate (version, target, open_at, room, state, grants, disabled, policy)
SELECT 1, target, open_at, room, state, grants, disabled, policy
  FROM unnest($2::text[], $3::bigint[], $4::timestamptz[], $5::int[], $6::text[], $7::text[], $8::text[], $9::text[])
           AS s (target, version, open_at, room, state, grants, disabled, policy)
 WHERE version = 0 AND ($1::bigint IS NULL OR EXISTS (SELECT FROM ebb_process WHERE id = $1))
 ORDER BY target
ON CONFLICT DO NOTHING
RETURNING target

-- name: gates_held
-- Those of which a process holds permits: $1 is a pattern for grants.
SELECT /*gate*/ FROM ebb_gate g WHERE g.grants LIKE $1 ORDER BY g.target FOR UPDATE
