-- What waits in a lane is found by the number of its part: a row of ebb_wait is
-- less than half as long as with the part's name in front, and so are the pages
-- that every claim writes.

DROP INDEX ebb_lane_look;
ALTER TABLE ebb_lane RENAME TO ebb_lane_before;
ALTER TABLE ebb_wait RENAME TO ebb_wait_before;

-- The parts of lanes, and when discovery looks at each next. Every part with a
-- row in ebb_wait has one here; a part without means nothing, and goes when it
-- is found empty. target is queue:NAME for what waits for a limited queue itself.
CREATE TABLE ebb_lane (
    id      INTEGER PRIMARY KEY,
    target  TEXT    NOT NULL,
    queue   TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    retry   INTEGER NOT NULL, -- jobs that have started before
    look_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX ebb_lane_name ON ebb_lane (target, queue, kind, retry);
CREATE INDEX ebb_lane_look ON ebb_lane (queue, look_at, target, kind, retry);

-- The queued jobs of targets' lanes, each part of a lane in the order of claims.
CREATE TABLE ebb_wait (
    lane        INTEGER NOT NULL, -- the part
    priority    INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    deadline_at INTEGER,
    PRIMARY KEY (lane, priority, due_at, seq)
) STRICT, WITHOUT ROWID;

INSERT INTO ebb_lane (target, queue, kind, retry, look_at) SELECT target, queue, kind, retry, look_at FROM ebb_lane_before;
INSERT INTO ebb_wait
SELECT l.id, w.priority, w.due_at, w.seq, w.deadline_at
  FROM ebb_lane AS l CROSS JOIN ebb_wait_before AS w
    ON w.target = l.target AND w.queue = l.queue AND w.kind = l.kind AND w.retry = l.retry
 ORDER BY 1, 2, 3, 4;
DROP TABLE ebb_wait_before;
DROP TABLE ebb_lane_before;

-- down

-- Keeps everything.
DROP INDEX ebb_lane_look;
DROP INDEX ebb_lane_name;
ALTER TABLE ebb_lane RENAME TO ebb_lane_after;
ALTER TABLE ebb_wait RENAME TO ebb_wait_after;

CREATE TABLE ebb_wait (
    target      TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    retry       INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    deadline_at INTEGER,
    PRIMARY KEY (target, queue, kind, retry, priority, due_at, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE ebb_lane (
    target  TEXT    NOT NULL,
    queue   TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    retry   INTEGER NOT NULL,
    look_at INTEGER NOT NULL,
    PRIMARY KEY (target, queue, kind, retry)
) STRICT, WITHOUT ROWID;

CREATE INDEX ebb_lane_look ON ebb_lane (queue, look_at, target, kind, retry);

INSERT INTO ebb_lane SELECT target, queue, kind, retry, look_at FROM ebb_lane_after;
INSERT INTO ebb_wait
SELECT l.target, l.queue, l.kind, l.retry, w.priority, w.due_at, w.seq, w.deadline_at
  FROM ebb_lane_after AS l CROSS JOIN ebb_wait_after AS w ON w.lane = l.id;
DROP TABLE ebb_wait_after;
DROP TABLE ebb_lane_after;
