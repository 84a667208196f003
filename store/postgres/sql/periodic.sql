-- name: put_periodic
INSERT INTO ebb_periodic AS p (name, cron, zone, missed, job, next_at, last_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (name) DO UPDATE
   SET cron = excluded.cron, zone = excluded.zone, missed = excluded.missed, job = excluded.job,
       next_at = CASE WHEN p.cron = excluded.cron AND p.zone = excluded.zone THEN p.next_at ELSE excluded.next_at END,
       last_at = CASE WHEN p.cron = excluded.cron AND p.zone = excluded.zone THEN p.last_at ELSE excluded.last_at END

-- name: drop_periodic
DELETE FROM ebb_periodic WHERE name = $1

-- name: periodics
SELECT name, cron, zone, missed, job, next_at, last_at FROM ebb_periodic ORDER BY name

-- name: fires
SELECT EXISTS (SELECT FROM ebb_periodic WHERE name = $1 AND next_at = $2::timestamptz)

-- name: move_periodic
-- Who comes second waits, and finds the time moved.
UPDATE ebb_periodic
   SET next_at = $3::timestamptz, last_at = CASE WHEN $4::boolean THEN $2 ELSE last_at END
 WHERE name = $1 AND next_at = $2::timestamptz
