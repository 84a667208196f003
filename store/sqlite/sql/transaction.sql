-- name: begin
BEGIN IMMEDIATE

-- name: begin_read
BEGIN

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: savepoint
SAVEPOINT ebb

-- name: release
RELEASE ebb

-- name: rollback_to
ROLLBACK TO ebb

-- name: tally
-- ?1 queue, ?2 state, ?3 difference
INSERT INTO ebb_tally (queue, state, n) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET n = n + excluded.n
