-- The queue on SQLite.
--
-- Instants are microseconds since 1970 in UTC, durations (last_delay, delay,
-- held, held_for, retry_after) nanoseconds. NULL means none, and of a number 0: most of a
-- job's columns are, and then cost nothing to read. Classes, states and causes
-- are stored by name. All tables begin with ebb_, so that your own can stand
-- in the same file and share its transactions.

-- up

-- Queued and running jobs, and nothing else: what is known of them, written
-- when they come and after each start. Where a job stands is elsewhere: in
-- ebb_ready or ebb_wait while it waits, in ebb_lease while it runs, in none of
-- them while an earlier job of its key stands before it. So a claim touches
-- two narrow tables and no wide row.
CREATE TABLE ebb_job (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice
    queue          TEXT    NOT NULL,
    kind           TEXT    NOT NULL,
    priority       INTEGER NOT NULL,                  -- 0 goes first, 9 last
    due_at         INTEGER NOT NULL,
    epoch          INTEGER,                           -- of the last lease that ended
    enqueued_at    INTEGER NOT NULL,
    policy         TEXT    NOT NULL,
    target         TEXT,
    key            TEXT,
    unique_key     TEXT,
    deadline_at    INTEGER,
    batch          TEXT,
    trace          TEXT,
    starts         INTEGER,                           -- the history that the next decision needs
    attempts       INTEGER,
    waits          INTEGER,
    idle           INTEGER,
    crashes        INTEGER,
    free           TEXT,                              -- JSON: free starts by class
    first_start_at INTEGER,
    last_delay     INTEGER,
    last_class     TEXT,                              -- the last failure
    last_error     TEXT,
    fingerprint    TEXT,
    version        TEXT,                              -- of the policy that decided last
    progress       BLOB,
    key_rule       TEXT,                              -- skip | park; NULL = block
    held_for       INTEGER,                           -- how long gates held it back
    args           BLOB    NOT NULL                   -- opaque; last, so that scans skip its pages
) STRICT;

CREATE INDEX ebb_job_deadline ON ebb_job (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX ebb_job_batch ON ebb_job (batch) WHERE batch IS NOT NULL;
CREATE UNIQUE INDEX ebb_job_unique ON ebb_job (unique_key) WHERE unique_key IS NOT NULL;

-- The queued jobs of the plain lanes in the order of claims. Equality on kind and priority bounds
-- every scan: jobs of unknown kinds, and those of the future, are never walked
-- over.
CREATE TABLE ebb_ready (
    queue    TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    PRIMARY KEY (queue, kind, priority, due_at, seq)
) STRICT, WITHOUT ROWID;

-- The queued jobs of targets' lanes, each part of a lane in the order of
-- claims. target is queue:NAME for what waits for a limited queue itself.
CREATE TABLE ebb_wait (
    target      TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    retry       INTEGER NOT NULL, -- it has started before
    priority    INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    deadline_at INTEGER,
    PRIMARY KEY (target, queue, kind, retry, priority, due_at, seq)
) STRICT, WITHOUT ROWID;

-- When discovery looks at a part of a lane next. Every part with a row in
-- ebb_wait has one here; a part without means nothing, and goes when it is
-- found empty.
CREATE TABLE ebb_lane (
    target  TEXT    NOT NULL,
    queue   TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    retry   INTEGER NOT NULL,
    look_at INTEGER NOT NULL,
    PRIMARY KEY (target, queue, kind, retry)
) STRICT, WITHOUT ROWID;

CREATE INDEX ebb_lane_look ON ebb_lane (queue, look_at, target, kind, retry);

-- The jobs of each key that stand in each other's way: the living, and dead
-- letters that block. The one with head = 1 alone is claimable, if it waits.
CREATE TABLE ebb_key (
    queue  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    seq    INTEGER NOT NULL,
    head   INTEGER NOT NULL DEFAULT 0,
    target TEXT,
    PRIMARY KEY (queue, key, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX ebb_key_head ON ebb_key (queue, key) WHERE head = 1;
CREATE INDEX ebb_key_target ON ebb_key (target, seq) WHERE target IS NOT NULL; -- to find those that are blocked

-- Unique keys that stay taken after their job has ended.
CREATE TABLE ebb_unique (
    unique_key TEXT PRIMARY KEY,
    seq        INTEGER NOT NULL, -- of the job that took it
    until      INTEGER NOT NULL
) STRICT;

CREATE INDEX ebb_unique_until ON ebb_unique (until);

-- The gates of targets. Short columns first: discovery reads no more.
CREATE TABLE ebb_gate (
    target   TEXT PRIMARY KEY,
    version  INTEGER NOT NULL,
    open_at  INTEGER,
    room     INTEGER NOT NULL,
    grants   TEXT,             -- JSON: [process, firsts, retries, probe] each
    disabled TEXT,             -- why it takes no work at all
    policy   TEXT,
    state    TEXT    NOT NULL  -- JSON
) STRICT;

-- The running jobs: few. No index on process, for whoever asks by it (a beat
-- with orders, a reap) can read them all.
CREATE TABLE ebb_lease (
    seq       INTEGER PRIMARY KEY,
    process   INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,           -- claims so far: the fencing number
    leased_at INTEGER NOT NULL,
    begun     INTEGER NOT NULL,           -- the handler may have begun
    queue     TEXT    NOT NULL,
    ordered   INTEGER NOT NULL DEFAULT 0, -- the process is told to cancel the job
    key       TEXT                        -- of a job with one: its end lets the next go
) STRICT;

CREATE INDEX ebb_lease_ordered ON ebb_lease (process) WHERE ordered = 1;

-- Succeeded and cancelled jobs. The columns start to start_version are the
-- start that succeeded: it has no row in ebb_attempt. Rows stand in the order
-- in which jobs ended: those that end together fill pages, where in the order
-- of their numbers each would change a page of its own.
CREATE TABLE ebb_done (
    seq            INT     NOT NULL PRIMARY KEY, -- INT: no alias of the rowid
    state          TEXT    NOT NULL, -- succeeded | cancelled
    ended_at       INTEGER NOT NULL,
    queue          TEXT    NOT NULL,
    kind           TEXT    NOT NULL,
    priority       INTEGER NOT NULL,
    due_at         INTEGER NOT NULL,
    epoch          INTEGER,
    enqueued_at    INTEGER NOT NULL,
    policy         TEXT    NOT NULL,
    target         TEXT,
    key            TEXT,
    unique_key     TEXT,
    deadline_at    INTEGER,
    batch          TEXT,
    trace          TEXT,
    starts         INTEGER,
    attempts       INTEGER,
    waits          INTEGER,
    idle           INTEGER,
    crashes        INTEGER,
    free           TEXT,
    first_start_at INTEGER,
    last_delay     INTEGER,
    last_class     TEXT,
    last_error     TEXT,
    fingerprint    TEXT,
    version        TEXT,
    progress       BLOB,
    key_rule       TEXT,
    held_for       INTEGER,
    result         BLOB,
    start          INTEGER,          -- its number; NULL = no start succeeded
    process        INTEGER,
    started_at     INTEGER,
    stopped_at     INTEGER,
    held_by        TEXT,
    held           INTEGER,
    start_version  TEXT,
    args           BLOB    NOT NULL
) STRICT;

CREATE INDEX ebb_done_ended ON ebb_done (ended_at);
CREATE INDEX ebb_done_batch ON ebb_done (batch, seq) WHERE batch IS NOT NULL;

-- Failed jobs: the dead letters.
CREATE TABLE ebb_dead (
    seq            INTEGER PRIMARY KEY,
    cause          TEXT    NOT NULL, -- fatal | exhausted | poison | expired
    ended_at       INTEGER NOT NULL,
    queue          TEXT    NOT NULL,
    kind           TEXT    NOT NULL,
    priority       INTEGER NOT NULL,
    due_at         INTEGER NOT NULL,
    epoch          INTEGER,
    enqueued_at    INTEGER NOT NULL,
    policy         TEXT    NOT NULL,
    target         TEXT,
    key            TEXT,
    unique_key     TEXT,
    deadline_at    INTEGER,
    batch          TEXT,
    trace          TEXT,
    starts         INTEGER,
    attempts       INTEGER,
    waits          INTEGER,
    idle           INTEGER,
    crashes        INTEGER,
    free           TEXT,
    first_start_at INTEGER,
    last_delay     INTEGER,
    last_class     TEXT,
    last_error     TEXT,
    fingerprint    TEXT,
    version        TEXT,
    progress       BLOB,
    key_rule       TEXT,
    held_for       INTEGER,
    args           BLOB    NOT NULL
) STRICT;

CREATE INDEX ebb_dead_ended ON ebb_dead (ended_at);
CREATE INDEX ebb_dead_group ON ebb_dead (fingerprint, kind, queue, last_class, cause, ended_at);
CREATE INDEX ebb_dead_batch ON ebb_dead (batch) WHERE batch IS NOT NULL;

-- Jobs that wait for a person, a probe or another config.
CREATE TABLE ebb_parked (
    seq            INTEGER PRIMARY KEY,
    cause          TEXT    NOT NULL, -- config | no_progress | host_lost | target_down | disabled | head_failed
    config         TEXT,             -- fingerprint of the config that parked it
    queue          TEXT    NOT NULL,
    kind           TEXT    NOT NULL,
    priority       INTEGER NOT NULL,
    due_at         INTEGER NOT NULL,
    epoch          INTEGER,
    enqueued_at    INTEGER NOT NULL,
    policy         TEXT    NOT NULL,
    target         TEXT,
    key            TEXT,
    unique_key     TEXT,
    deadline_at    INTEGER,
    batch          TEXT,
    trace          TEXT,
    starts         INTEGER,
    attempts       INTEGER,
    waits          INTEGER,
    idle           INTEGER,
    crashes        INTEGER,
    free           TEXT,
    first_start_at INTEGER,
    last_delay     INTEGER,
    last_class     TEXT,
    last_error     TEXT,
    fingerprint    TEXT,
    version        TEXT,
    progress       BLOB,
    key_rule       TEXT,
    held_for       INTEGER,
    args           BLOB    NOT NULL
) STRICT;

CREATE INDEX ebb_parked_cause ON ebb_parked (cause, kind);
CREATE INDEX ebb_parked_batch ON ebb_parked (batch) WHERE batch IS NOT NULL;
CREATE UNIQUE INDEX ebb_parked_unique ON ebb_parked (unique_key) WHERE unique_key IS NOT NULL;

-- The ledger of starts that did not succeed. A lease ends once, so (seq,
-- epoch) names a start, and epochs are the order of starts.
CREATE TABLE ebb_attempt (
    seq         INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    start       INTEGER NOT NULL,
    process     INTEGER NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER,
    ok          INTEGER NOT NULL,
    class       TEXT,
    reason      TEXT,
    status      INTEGER,
    error       TEXT,
    retry_after INTEGER,
    action      TEXT,
    cause       TEXT,
    delay       INTEGER,
    due_at      INTEGER,
    held_by     TEXT,
    held        INTEGER,
    counted     TEXT,
    rule        TEXT,
    version     TEXT,
    stack       TEXT,
    PRIMARY KEY (seq, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE ebb_process (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    host    TEXT    NOT NULL,
    pid     INTEGER NOT NULL,
    kinds   TEXT    NOT NULL, -- JSON
    queues  TEXT    NOT NULL, -- JSON
    config  TEXT    NOT NULL,
    beat    INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    born_at INTEGER NOT NULL,
    version TEXT    NOT NULL
) STRICT;

CREATE TABLE ebb_queue (
    name        TEXT PRIMARY KEY,
    paused      INTEGER NOT NULL DEFAULT 0,
    strict      INTEGER NOT NULL DEFAULT 0, -- one lane, one slot
    concurrency INTEGER NOT NULL DEFAULT 0, -- limits over all processes; 0 = none
    rate        REAL    NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Kinds of which nothing starts.
CREATE TABLE ebb_paused_kind (
    kind TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE ebb_periodic (
    name    TEXT PRIMARY KEY,
    cron    TEXT NOT NULL,
    zone    TEXT NOT NULL,
    missed  TEXT NOT NULL,
    job     TEXT NOT NULL, -- JSON
    next_at INTEGER,
    last_at INTEGER
) STRICT;

-- How many jobs stand where. Kept in the transaction of every change: SQLite
-- has one writer, so a counter is no point of contention.
CREATE TABLE ebb_tally (
    queue TEXT    NOT NULL,
    state TEXT    NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (queue, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE ebb_redrive (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    filter     TEXT    NOT NULL, -- JSON
    rate       REAL    NOT NULL, -- jobs a second; 0 = at once
    actor      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    done_at    INTEGER,
    moved      INTEGER NOT NULL,
    cursor     INTEGER NOT NULL  -- sequence number reached
) STRICT;

CREATE TABLE ebb_audit (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    act    TEXT    NOT NULL,
    what   TEXT    NOT NULL,
    detail TEXT    NOT NULL
) STRICT;

-- Documents of workloads and of the server.
CREATE TABLE ebb_record (
    kind       TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    ref        TEXT,             -- what it belongs to
    version    INTEGER NOT NULL, -- writes so far
    expires_at INTEGER,          -- not there from then on
    body       BLOB    NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT;

CREATE INDEX ebb_record_ref ON ebb_record (kind, ref, id) WHERE ref IS NOT NULL;
CREATE INDEX ebb_record_expires ON ebb_record (expires_at) WHERE expires_at IS NOT NULL;

-- One shape for every job, wherever it stands. Each view is one plain SELECT
-- without joins, with the same types, so that a list over all of them merges
-- their orders and stops when its page is full.
CREATE VIEW ebb_live_view AS
SELECT seq, queue, kind, priority, due_at,
       CAST(coalesce((SELECT l.epoch FROM ebb_lease AS l WHERE l.seq = j.seq), epoch) AS INTEGER) AS epoch,
       enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
       first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args,
       CAST((SELECT l.process FROM ebb_lease AS l WHERE l.seq = j.seq) AS INTEGER) AS process,
       CAST((SELECT l.leased_at FROM ebb_lease AS l WHERE l.seq = j.seq) AS INTEGER) AS leased_at,
       CAST((SELECT l.begun FROM ebb_lease AS l WHERE l.seq = j.seq) AS INTEGER) AS begun,
       CAST(CASE WHEN EXISTS (SELECT 1 FROM ebb_lease AS l WHERE l.seq = j.seq) THEN 'running' ELSE 'queued' END AS TEXT) AS state,
       CAST(NULL AS TEXT) AS cause, CAST(NULL AS INTEGER) AS ended_at, CAST(NULL AS TEXT) AS config, CAST(NULL AS BLOB) AS result,
       key_rule, held_for,
       CAST(CASE WHEN j.key IS NOT NULL THEN EXISTS (SELECT 1 FROM ebb_key AS k WHERE k.queue = j.queue AND k.key = j.key AND k.seq = j.seq AND k.head = 0) END AS INTEGER) AS blocked
  FROM ebb_job AS j;

-- Running jobs alone, without a walk over those that wait.
CREATE VIEW ebb_running_view AS
SELECT j.seq, j.queue, kind, priority, due_at, l.epoch,
       enqueued_at, policy, target, j.key, unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
       first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args,
       l.process, l.leased_at, l.begun,
       'running' AS state, CAST(NULL AS TEXT) AS cause, CAST(NULL AS INTEGER) AS ended_at, CAST(NULL AS TEXT) AS config, CAST(NULL AS BLOB) AS result,
       key_rule, held_for, CAST(NULL AS INTEGER) AS blocked
  FROM ebb_lease AS l CROSS JOIN ebb_job AS j ON j.seq = l.seq;

CREATE VIEW ebb_done_view AS
SELECT seq, queue, kind, priority, due_at, epoch,
       enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
       first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args,
       CAST(NULL AS INTEGER) AS process, CAST(NULL AS INTEGER) AS leased_at, CAST(NULL AS INTEGER) AS begun,
       state, CAST(NULL AS TEXT) AS cause, ended_at, CAST(NULL AS TEXT) AS config, result,
       key_rule, held_for, CAST(NULL AS INTEGER) AS blocked
  FROM ebb_done;

CREATE VIEW ebb_dead_view AS
SELECT seq, queue, kind, priority, due_at, epoch,
       enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
       first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args,
       CAST(NULL AS INTEGER) AS process, CAST(NULL AS INTEGER) AS leased_at, CAST(NULL AS INTEGER) AS begun,
       CAST('failed' AS TEXT) AS state, cause, ended_at, CAST(NULL AS TEXT) AS config, CAST(NULL AS BLOB) AS result,
       key_rule, held_for, CAST(NULL AS INTEGER) AS blocked
  FROM ebb_dead;

CREATE VIEW ebb_parked_view AS
SELECT seq, queue, kind, priority, due_at, epoch,
       enqueued_at, policy, target, key, unique_key, deadline_at, batch, trace, starts, attempts, waits, idle, crashes, free,
       first_start_at, last_delay, last_class, last_error, fingerprint, version, progress, args,
       CAST(NULL AS INTEGER) AS process, CAST(NULL AS INTEGER) AS leased_at, CAST(NULL AS INTEGER) AS begun,
       CAST('parked' AS TEXT) AS state, cause, CAST(NULL AS INTEGER) AS ended_at, config, CAST(NULL AS BLOB) AS result,
       key_rule, held_for, CAST(NULL AS INTEGER) AS blocked
  FROM ebb_parked;

CREATE VIEW ebb_all_view AS
SELECT * FROM ebb_live_view
UNION ALL SELECT * FROM ebb_done_view
UNION ALL SELECT * FROM ebb_dead_view
UNION ALL SELECT * FROM ebb_parked_view;

-- down

DROP VIEW ebb_all_view;
DROP VIEW ebb_parked_view;
DROP VIEW ebb_dead_view;
DROP VIEW ebb_done_view;
DROP VIEW ebb_running_view;
DROP VIEW ebb_live_view;
DROP TABLE ebb_record;
DROP TABLE ebb_audit;
DROP TABLE ebb_redrive;
DROP TABLE ebb_tally;
DROP TABLE ebb_periodic;
DROP TABLE ebb_paused_kind;
DROP TABLE ebb_queue;
DROP TABLE ebb_process;
DROP TABLE ebb_attempt;
DROP TABLE ebb_parked;
DROP TABLE ebb_dead;
DROP TABLE ebb_done;
DROP TABLE ebb_lease;
DROP TABLE ebb_gate;
DROP TABLE ebb_unique;
DROP TABLE ebb_key;
DROP TABLE ebb_lane;
DROP TABLE ebb_wait;
DROP TABLE ebb_ready;
DROP TABLE ebb_job;
