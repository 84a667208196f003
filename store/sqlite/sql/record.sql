-- name: record
-- ?3 is now.
SELECT kind, id, ref, version, expires_at, body FROM ebb_record
 WHERE kind = ?1 AND id = ?2 AND (expires_at IS NULL OR expires_at > ?3)

-- name: record_version
SELECT version FROM ebb_record WHERE kind = ?1 AND id = ?2 AND (expires_at IS NULL OR expires_at > ?3)

-- name: record_put
INSERT INTO ebb_record (kind, id, ref, version, expires_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (kind, id) DO UPDATE
   SET ref = excluded.ref, version = excluded.version, expires_at = excluded.expires_at, body = excluded.body

-- name: record_body
UPDATE ebb_record SET body = ?3 WHERE kind = ?1 AND id = ?2

-- name: record_drop
DELETE FROM ebb_record WHERE kind = ?1 AND id = ?2

-- name: records_up
-- ?1 kind, ?2 the id before the first, ?3 now, ?4 limit, ?5 ref
SELECT kind, id, ref, version, expires_at, body FROM ebb_record
 WHERE kind = ?1 AND id > coalesce(?2, '') AND (expires_at IS NULL OR expires_at > ?3)
 ORDER BY id LIMIT ?4

-- name: records_down
-- A blob stands after every text.
SELECT kind, id, ref, version, expires_at, body FROM ebb_record
 WHERE kind = ?1 AND id < coalesce(?2, x'') AND (expires_at IS NULL OR expires_at > ?3)
 ORDER BY id DESC LIMIT ?4

-- name: records_up_ref
SELECT kind, id, ref, version, expires_at, body FROM ebb_record
 WHERE kind = ?1 AND ref = ?5 AND id > coalesce(?2, '') AND (expires_at IS NULL OR expires_at > ?3)
 ORDER BY id LIMIT ?4

-- name: records_down_ref
SELECT kind, id, ref, version, expires_at, body FROM ebb_record
 WHERE kind = ?1 AND ref = ?5 AND id < coalesce(?2, x'') AND (expires_at IS NULL OR expires_at > ?3)
 ORDER BY id DESC LIMIT ?4

-- name: records_expire
DELETE FROM ebb_record
 WHERE rowid IN (SELECT rowid FROM ebb_record WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
