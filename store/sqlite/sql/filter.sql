-- Lists and what is done to all that a filter selects. /*from*/ is the view
-- that can hold such jobs; /*filter*/ stands for the fragment below. An
-- absent part of a filter is NULL.

-- name: filter
(?1 IS NULL OR state = ?1) AND (?2 IS NULL OR cause = ?2) AND (?3 IS NULL OR kind = ?3)
AND (?4 IS NULL OR queue = ?4) AND (?5 IS NULL OR target = ?5) AND (?6 IS NULL OR +batch = ?6)
AND (?7 IS NULL OR last_class = ?7) AND (?8 IS NULL OR fingerprint = ?8)
AND (?9 IS NULL OR coalesce(ended_at, enqueued_at) >= ?9) AND (?10 IS NULL OR coalesce(ended_at, enqueued_at) < ?10)
AND (?11 IS NULL OR instr(key, ?11) > 0 OR instr(unique_key, ?11) > 0)

-- name: list
-- ?12 only below, ?13 limit, ?14 only from
SELECT * FROM /*from*/ WHERE seq < ?12 AND seq >= ?14 AND /*filter*/ ORDER BY seq DESC LIMIT ?13

-- name: list_batch
SELECT * FROM /*from*/ WHERE batch = ?6 AND seq < ?12 AND seq >= ?14 AND /*filter*/ ORDER BY seq DESC LIMIT ?13

-- name: list_seqs
-- ?15 the sequence numbers
SELECT * FROM /*from*/
 WHERE seq IN (SELECT value FROM json_each(?15)) AND seq < ?12 AND seq >= ?14 AND /*filter*/ ORDER BY seq DESC LIMIT ?13

-- name: floor
-- Where a list that may look at ?2 rows below ?1 stops.
SELECT seq FROM /*from*/ WHERE seq < ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2

-- name: above
-- What a redrive looks at next: ?12 only above, ?13 limit.
SELECT seq FROM /*from*/ WHERE seq > ?12 AND /*filter*/ ORDER BY seq LIMIT ?13

-- name: above_batch
SELECT seq FROM /*from*/ WHERE batch = ?6 AND seq > ?12 AND /*filter*/ ORDER BY seq LIMIT ?13

-- name: above_seqs
SELECT seq FROM /*from*/
 WHERE seq IN (SELECT value FROM json_each(?14)) AND seq > ?12 AND /*filter*/ ORDER BY seq LIMIT ?13

-- name: groups
-- In the order of the index, so that nothing is sorted but the groups.
SELECT fingerprint, kind, queue, last_class, cause, count(*), min(ended_at), max(ended_at)
  FROM ebb_dead_view
 WHERE /*filter*/ AND (?12 IS NULL OR seq IN (SELECT value FROM json_each(?12))) AND +seq >= ?13
 GROUP BY fingerprint, kind, queue, last_class, cause

-- name: groups_from
-- Among the newest: those from ?13 on, whose groups are sorted.
SELECT fingerprint, kind, queue, last_class, cause, count(*), min(ended_at), max(ended_at)
  FROM ebb_dead_view
 WHERE seq >= ?13 AND /*filter*/ AND (?12 IS NULL OR seq IN (SELECT value FROM json_each(?12)))
 GROUP BY +fingerprint, kind, queue, last_class, cause

-- name: group_error
-- The error of the newest of a group, among those that the filter selects.
SELECT last_error FROM ebb_dead_view
 WHERE fingerprint IS ?14 AND kind = ?15 AND queue = ?16 AND last_class IS ?17 AND cause = ?18 AND ended_at = ?19
   AND /*filter*/ AND (?12 IS NULL OR seq IN (SELECT value FROM json_each(?12))) AND +seq >= ?13
 ORDER BY seq DESC LIMIT 1
