-- fragment: record_columns
kind, id, ref, version, expires_at, body

-- name: record_one
SELECT /*record_columns*/ FROM ebb_record WHERE kind = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > now())

-- name: records_up
SELECT /*record_columns*/ FROM ebb_record
 WHERE /*filter*/ AND (expires_at IS NULL OR expires_at > now())
 ORDER BY id
 LIMIT $1

-- name: records_down
SELECT /*record_columns*/ FROM ebb_record
 WHERE /*filter*/ AND (expires_at IS NULL OR expires_at > now())
 ORDER BY id DESC
 LIMIT $1

-- name: record_put
-- Where there is none, or where $7 allows any; $1 is now. What has expired is
-- not there.
INSERT INTO ebb_record AS r (kind, id, ref, version, expires_at, body)
VALUES ($2, $3, nullif($4, ''), 1, $5::timestamptz, $6::bytea)
ON CONFLICT (kind, id) DO UPDATE
   SET ref = excluded.ref, expires_at = excluded.expires_at, body = excluded.body,
       version = CASE WHEN r.expires_at <= coalesce($1::timestamptz, now()) THEN 1 ELSE r.version + 1 END
 WHERE $7::boolean OR r.expires_at <= coalesce($1::timestamptz, now())
RETURNING version

-- name: record_replace
-- Where the version is still $7.
UPDATE ebb_record
   SET ref = nullif($4, ''), expires_at = $5::timestamptz, body = $6::bytea, version = version + 1
 WHERE kind = $2 AND id = $3 AND version = $7::bigint AND (expires_at IS NULL OR expires_at > coalesce($1::timestamptz, now()))
RETURNING version

-- name: record_body
UPDATE ebb_record SET body = $3::bytea WHERE kind = $1 AND id = $2

-- name: record_drop
-- $4 is the version, or -1 for any.
DELETE FROM ebb_record
 WHERE kind = $2 AND id = $3 AND ($4::bigint = -1 OR version = $4)
   AND (expires_at IS NULL OR expires_at > coalesce($1::timestamptz, now()))
RETURNING version

-- name: record_version
SELECT version FROM ebb_record
 WHERE kind = $2 AND id = $3 AND (expires_at IS NULL OR expires_at > coalesce($1::timestamptz, now()))

-- name: records_expire
WITH late AS MATERIALIZED (
    SELECT kind, id
      FROM ebb_record
     WHERE expires_at <= coalesce($1::timestamptz, now())
     ORDER BY expires_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
)
DELETE FROM ebb_record r USING late
 WHERE r.kind = late.kind AND r.id = late.id AND r.expires_at <= coalesce($1::timestamptz, now())
