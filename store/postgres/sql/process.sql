-- name: register
INSERT INTO ebb_process (seen_at, born_at, pid, host, kinds, queues, config, version, identity)
SELECT now, now, $2, $3, $4::text[], $5::text[], $6, $7, $8 FROM (SELECT coalesce($1::timestamptz, now()) AS now) AS clock
RETURNING id, born_at

-- name: beat
UPDATE ebb_process SET beat = beat + 1, seen_at = coalesce($2::timestamptz, now()) WHERE id = $1

-- name: orders
SELECT seq, epoch FROM ebb_job WHERE ordered AND process = $1 ORDER BY seq

-- name: processes
SELECT id, beat, seen_at, born_at, pid, host, kinds, queues, config, version, identity FROM ebb_process ORDER BY id

-- name: lock_process
-- Waits for the turns of the process that are under way.
SELECT pg_advisory_xact_lock(1700946274, ($1::bigint & 2147483647)::int)

-- name: leave
DELETE FROM ebb_process WHERE id = $1 AND (SELECT coalesce(sum(running), 0) FROM ebb_tally WHERE process = $1) = 0
   AND NOT EXISTS (SELECT FROM ebb_gate WHERE grants LIKE $2)

-- name: remove_process
DELETE FROM ebb_process WHERE id = $1 AND beat = $2

-- name: may_scan
-- The leases of a dead process are found by reading ebb_job from end to end:
-- an index on process would cost every claim of every living one.
SELECT set_config('enable_seqscan', 'on', true)

-- name: leases
SELECT /*moved*/, begun, leased_at FROM ebb_job WHERE process = $1 ORDER BY seq FOR UPDATE
