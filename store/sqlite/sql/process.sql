-- name: register
INSERT INTO ebb_process (host, pid, kinds, queues, config, beat, seen_at, born_at, version, identity)
VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?6, ?7, ?8)
RETURNING id

-- name: parked_elsewhere
-- What processes of the kinds ?1 parked under another config than ?2.
SELECT seq FROM ebb_parked
 WHERE cause = 'config' AND kind IN (SELECT value FROM json_each(?1)) AND coalesce(config, '') <> ?2
 ORDER BY seq

-- name: registered
SELECT 1 FROM ebb_process WHERE id = ?1

-- name: beat
UPDATE ebb_process SET beat = beat + 1, seen_at = ?2 WHERE id = ?1

-- name: orders
SELECT seq, epoch FROM ebb_lease WHERE process = ?1 AND ordered = 1 ORDER BY seq

-- name: leave
DELETE FROM ebb_process
 WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM ebb_lease WHERE process = ?1)

-- name: processes
SELECT id, host, pid, kinds, queues, config, beat, seen_at, born_at, version, identity FROM ebb_process ORDER BY id

-- name: beat_of
SELECT beat FROM ebb_process WHERE id = ?1

-- name: leases
SELECT * FROM ebb_running_view WHERE process = ?1 ORDER BY seq

-- name: process_end
DELETE FROM ebb_process WHERE id = ?1
