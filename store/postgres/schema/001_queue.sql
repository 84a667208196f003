-- The queue on PostgreSQL 14 and later.
--
-- Durations (last_delay, delay, held, retry_after) are nanoseconds. Where a
-- number, text or instant is NULL, it is 0, empty or none: most of a job's
-- columns are, and then cost one bit. Classes, states and causes are stored by
-- name. All tables begin with ebb_, so that your own can stand beside them and
-- share their transactions.
--
-- Columns stand by width, widest first, so that no row pays for padding.

-- up

-- The order of enqueues. Each value stands for 32 numbers in a row: a big batch
-- uses them all, a single job leaves 31 out. Without cache: a later enqueue has
-- a higher number.
CREATE SEQUENCE ebb_seq AS bigint INCREMENT BY 32 NO CYCLE;

-- Queued and running jobs, and nothing else. A job is running while process is
-- set. lane is where it waits, or will wait once nothing blocks it: NULL is the
-- plain lane, else the target's, or queue:NAME in a queue with limits. What is
-- blocked stands behind an earlier job of its key.
--
-- No index knows of process, leased_at, epoch or begun: so a claim changes no
-- index and, as more than half of each page is kept free for it, stays on its
-- page (a heap-only update). This makes a claim half as dear as one that moves
-- the row out of an index of ready jobs. Do not index these columns.
CREATE TABLE ebb_job (
    seq            bigint      NOT NULL,
    due_at         timestamptz NOT NULL DEFAULT now(),
    enqueued_at    timestamptz NOT NULL DEFAULT now(),
    process        bigint,                         -- who holds the lease
    leased_at      timestamptz,
    deadline_at    timestamptz,
    first_start_at timestamptz,                    -- from here the history that the next decision needs
    last_delay     bigint,
    held           bigint,                         -- how long gates held it back so far
    starts         integer,
    attempts       integer,
    waits          integer,
    idle           integer,
    crashes        integer,
    epoch          integer     NOT NULL DEFAULT 0, -- claims so far: the fencing number
    queue_number   integer     NOT NULL,           -- ebb_queue's, for the order of claims
    priority       smallint    NOT NULL DEFAULT 0, -- 0 goes first, 9 last
    begun          boolean     NOT NULL DEFAULT false, -- the handler of this lease may have begun
    ordered        boolean     NOT NULL DEFAULT false, -- its process is told to cancel it
    retrying       boolean     NOT NULL DEFAULT false, -- its next start is a retry to its gate
    blocked        boolean,                        -- NULL or true
    queue          text COLLATE "C" NOT NULL DEFAULT 'default',
    kind           text COLLATE "C" NOT NULL,
    policy         text COLLATE "C",               -- NULL = default
    args           bytea,
    target         text COLLATE "C",
    lane           text COLLATE "C",
    key            text COLLATE "C",
    key_rule       text COLLATE "C",               -- NULL = block
    unique_key     text COLLATE "C",
    batch          text COLLATE "C",
    trace          text COLLATE "C",
    free           bytea,                          -- free starts, a byte for each class
    last_class     text COLLATE "C",               -- the last failure
    last_error     text COLLATE "C",
    fingerprint    text COLLATE "C",
    version        text COLLATE "C",               -- of the policy that decided last
    progress       bytea,
    CONSTRAINT ebb_job_pkey PRIMARY KEY (seq)
) WITH (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 5000
);

-- The order of claims. Equality on queue and priority bounds every scan: jobs
-- of the future are never walked over. The queue stands in it by number: behind
-- a text no column has a fixed place, which made an insert an eighth dearer. No
-- two entries are equal: nothing to deduplicate.
CREATE INDEX ebb_job_ready ON ebb_job (queue_number, priority, due_at, seq) WITH (deduplicate_items = off)
 WHERE lane IS NULL AND blocked IS NULL;
-- The same of lanes: one stretch for each part of a lane that is looked at on
-- its own. The part stands in it by a number, for the same reason; that two
-- have the same is rare, and asked for. Jobs without a target or a key are in
-- none of these.
CREATE INDEX ebb_job_lane
    ON ebb_job (queue_number, hashtextextended(lane, hashtextextended(kind, retrying::int)), priority, due_at, seq)
  WITH (deduplicate_items = off)
 WHERE lane IS NOT NULL AND blocked IS NULL;
CREATE INDEX ebb_job_target ON ebb_job (target, seq) WHERE target IS NOT NULL;
CREATE INDEX ebb_job_held ON ebb_job (target, seq) WHERE held IS NOT NULL;
-- A key's line, and who of it is not blocked: its head, and what runs.
CREATE INDEX ebb_job_key ON ebb_job (queue, key, seq) WHERE key IS NOT NULL;
CREATE INDEX ebb_job_head ON ebb_job (queue, key, seq) WHERE key IS NOT NULL AND blocked IS NULL;
CREATE INDEX ebb_job_deadline ON ebb_job (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX ebb_job_ordered ON ebb_job (seq) WHERE ordered;

-- Keys of living jobs, queued, running or parked.
CREATE TABLE ebb_unique (
    key text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    CONSTRAINT ebb_unique_pkey PRIMARY KEY (key)
);

-- Keys that stay taken until an instant, though the job that took them ended.
CREATE TABLE ebb_reserved (
    key   text COLLATE "C" NOT NULL,
    seq   bigint      NOT NULL,
    until timestamptz NOT NULL,
    CONSTRAINT ebb_reserved_pkey PRIMARY KEY (key)
);

CREATE INDEX ebb_reserved_until ON ebb_reserved (until);

-- When discovery looks at which part of a lane. Everything that makes a job of
-- a lane queued adds a row, and changes none: so no enqueue waits for another,
-- and a late commit brings its own look. Who looks takes the rows of the lane
-- away, in the statement that sees what is left, and writes the next look. A
-- part's look is the earliest of its rows; a part in which a job waits always
-- has one.
CREATE TABLE ebb_look (
    look_at      timestamptz NOT NULL,
    queue_number integer     NOT NULL,
    priority     smallint    NOT NULL,
    retrying     boolean     NOT NULL,
    target       text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE INDEX ebb_look_due ON ebb_look (queue_number, kind, retrying, look_at, target);
CREATE INDEX ebb_look_lane ON ebb_look (target, queue_number, kind, retrying, priority);

-- What guards a target, changed by compare-and-swap on version. state and
-- grants are JSON that no statement looks into. Most of a page is free: a swap
-- stays on it.
CREATE TABLE ebb_gate (
    version  bigint  NOT NULL,
    open_at  timestamptz,                          -- NULL = now
    room     integer NOT NULL,
    target   text COLLATE "C" NOT NULL,
    state    text    NOT NULL,
    grants   text    NOT NULL,                     -- which process holds how many permits
    disabled text    NOT NULL,
    policy   text    NOT NULL,
    CONSTRAINT ebb_gate_pkey PRIMARY KEY (target)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Keys whose head is to be found anew, as a job of theirs has moved. Mostly a
-- row goes in the transaction that wrote it. It stays where an enqueue of the
-- key is open, and is worked off later.
CREATE TABLE ebb_note (
    seq   bigint  NOT NULL,                        -- the job
    park  boolean NOT NULL,                        -- it failed: those behind it are parked
    taken boolean NOT NULL DEFAULT false,          -- only within a transaction
    queue text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Kinds that start nothing.
CREATE TABLE ebb_paused (
    kind text COLLATE "C" NOT NULL,
    CONSTRAINT ebb_paused_pkey PRIMARY KEY (kind)
);

CREATE TABLE ebb_periodic (
    next_at timestamptz,
    last_at timestamptz,
    name    text COLLATE "C" NOT NULL,
    cron    text  NOT NULL,
    zone    text  NOT NULL,
    missed  text  NOT NULL,
    job     jsonb NOT NULL,
    CONSTRAINT ebb_periodic_pkey PRIMARY KEY (name)
);

-- Succeeded and cancelled jobs. The columns from run_by to run_version are the
-- start that succeeded: it has no row in ebb_attempt.
CREATE TABLE ebb_done (
    seq            bigint      NOT NULL,
    due_at         timestamptz NOT NULL,
    enqueued_at    timestamptz NOT NULL,
    ended_at       timestamptz NOT NULL,
    deadline_at    timestamptz,
    first_start_at timestamptz,
    last_delay     bigint,
    held           bigint,
    run_by         bigint,                         -- its process; NULL = no start succeeded
    run_from       timestamptz,
    run_until      timestamptz,
    run_held       bigint,
    run_start      integer,                        -- its number
    starts         integer,
    attempts       integer,
    waits          integer,
    idle           integer,
    crashes        integer,
    epoch          integer     NOT NULL,
    priority       smallint    NOT NULL,
    cancelled      boolean     NOT NULL,
    queue          text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    policy         text COLLATE "C",
    args           bytea,
    run_version    text COLLATE "C",
    run_held_by    text COLLATE "C",
    result         bytea,
    target         text COLLATE "C",
    key            text COLLATE "C",
    key_rule       text COLLATE "C",
    unique_key     text COLLATE "C",
    batch          text COLLATE "C",
    trace          text COLLATE "C",
    free           bytea,
    last_class     text COLLATE "C",
    last_error     text COLLATE "C",
    fingerprint    text COLLATE "C",
    version        text COLLATE "C",
    progress       bytea,
    CONSTRAINT ebb_done_pkey PRIMARY KEY (seq)
);

CREATE INDEX ebb_done_ended ON ebb_done (ended_at);

-- Failed jobs: the dead letters.
CREATE TABLE ebb_dead (
    seq            bigint      NOT NULL,
    due_at         timestamptz NOT NULL,
    enqueued_at    timestamptz NOT NULL,
    ended_at       timestamptz NOT NULL,
    deadline_at    timestamptz,
    first_start_at timestamptz,
    last_delay     bigint,
    held           bigint,
    starts         integer,
    attempts       integer,
    waits          integer,
    idle           integer,
    crashes        integer,
    epoch          integer     NOT NULL,
    priority       smallint    NOT NULL,
    cause          text COLLATE "C" NOT NULL,      -- fatal | exhausted | poison | expired
    queue          text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    policy         text COLLATE "C",
    args           bytea,
    target         text COLLATE "C",
    key            text COLLATE "C",
    key_rule       text COLLATE "C",
    unique_key     text COLLATE "C",
    batch          text COLLATE "C",
    trace          text COLLATE "C",
    free           bytea,
    last_class     text COLLATE "C",
    last_error     text COLLATE "C",
    fingerprint    text COLLATE "C",
    version        text COLLATE "C",
    progress       bytea,
    CONSTRAINT ebb_dead_pkey PRIMARY KEY (seq)
);

CREATE INDEX ebb_dead_key ON ebb_dead (queue, key, seq) WHERE key IS NOT NULL AND key_rule IS NULL;
CREATE INDEX ebb_dead_ended ON ebb_dead (ended_at);
CREATE INDEX ebb_dead_group ON ebb_dead (coalesce(fingerprint, ''), kind, queue, coalesce(last_class, ''), cause, ended_at, seq);

-- Jobs that wait for a person, a probe or another config.
CREATE TABLE ebb_parked (
    seq            bigint      NOT NULL,
    due_at         timestamptz NOT NULL,
    enqueued_at    timestamptz NOT NULL,
    deadline_at    timestamptz,
    first_start_at timestamptz,
    last_delay     bigint,
    held           bigint,
    starts         integer,
    attempts       integer,
    waits          integer,
    idle           integer,
    crashes        integer,
    epoch          integer     NOT NULL,
    priority       smallint    NOT NULL,
    cause          text COLLATE "C" NOT NULL,      -- config | no_progress | host_lost | target_down | disabled | head_failed
    queue          text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    config         text COLLATE "C",               -- fingerprint of the config that parked it
    policy         text COLLATE "C",
    args           bytea,
    target         text COLLATE "C",
    key            text COLLATE "C",
    key_rule       text COLLATE "C",
    unique_key     text COLLATE "C",
    batch          text COLLATE "C",
    trace          text COLLATE "C",
    free           bytea,
    last_class     text COLLATE "C",
    last_error     text COLLATE "C",
    fingerprint    text COLLATE "C",
    version        text COLLATE "C",
    progress       bytea,
    CONSTRAINT ebb_parked_pkey PRIMARY KEY (seq)
);

CREATE INDEX ebb_parked_key ON ebb_parked (queue, key, seq) WHERE key IS NOT NULL;
CREATE INDEX ebb_parked_kind ON ebb_parked (kind, cause);

-- The ledger of starts that did not succeed; append-only. A lease ends once,
-- so (seq, epoch) names a start, and epochs are the order of starts.
CREATE TABLE ebb_attempt (
    seq         bigint  NOT NULL,
    process     bigint  NOT NULL,
    started_at  timestamptz,
    ended_at    timestamptz,
    due_at      timestamptz,
    delay       bigint,
    held        bigint,
    retry_after bigint,
    epoch       integer NOT NULL,
    start       integer NOT NULL,
    status      integer,
    ok          boolean NOT NULL,
    class       text COLLATE "C",
    reason      text COLLATE "C",
    error       text COLLATE "C",
    action      text COLLATE "C",
    cause       text COLLATE "C",
    held_by     text COLLATE "C",
    counted     text COLLATE "C",
    rule        text COLLATE "C",
    version     text COLLATE "C",
    stack       text COLLATE "C",
    CONSTRAINT ebb_attempt_pkey PRIMARY KEY (seq, epoch)
);

CREATE TABLE ebb_process (
    id      bigint GENERATED ALWAYS AS IDENTITY,
    beat    bigint      NOT NULL DEFAULT 0,
    seen_at timestamptz NOT NULL,
    born_at timestamptz NOT NULL,
    pid     bigint      NOT NULL,
    host    text        NOT NULL,
    kinds   text[],
    queues  text[],
    config  text        NOT NULL,
    version text        NOT NULL,
    CONSTRAINT ebb_process_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);

-- Queues are never removed: jobs know them by number too.
CREATE TABLE ebb_queue (
    number integer GENERATED ALWAYS AS IDENTITY,
    name   text COLLATE "C" NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    strict boolean NOT NULL DEFAULT false,         -- one lane, one slot
    concurrency integer NOT NULL DEFAULT 0,        -- limits over all processes; 0 = none
    rate double precision NOT NULL DEFAULT 0,
    CONSTRAINT ebb_queue_pkey PRIMARY KEY (name),
    CONSTRAINT ebb_queue_number UNIQUE (number)
);

-- How many jobs stand where, as differences: every batch adds a row for each
-- queue, maintenance adds them up. A counter in place would be one hot row.
-- running is counted by process too: who may leave, and whether a strict
-- queue's slot is free, is read from here.
CREATE TABLE ebb_tally (
    queue     text COLLATE "C" NOT NULL,
    process   bigint,
    queued    bigint NOT NULL DEFAULT 0,
    running   bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    parked    bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- How many dead letters are in each group, as differences too.
CREATE TABLE ebb_group (
    fingerprint text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    last_class  text COLLATE "C" NOT NULL,
    cause       text COLLATE "C" NOT NULL,
    n           bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE TABLE ebb_redrive (
    id         bigint GENERATED ALWAYS AS IDENTITY,
    created_at timestamptz      NOT NULL,
    done_at    timestamptz,
    moved      bigint           NOT NULL DEFAULT 0,
    cursor     bigint           NOT NULL DEFAULT 0, -- sequence number reached
    rate       double precision NOT NULL,           -- jobs a second; 0 = at once
    actor      text             NOT NULL,
    filter     jsonb            NOT NULL,
    CONSTRAINT ebb_redrive_pkey PRIMARY KEY (id)
);

CREATE TABLE ebb_audit (
    id     bigint GENERATED ALWAYS AS IDENTITY,
    at     timestamptz NOT NULL,
    actor  text        NOT NULL,
    act    text        NOT NULL,
    what   text        NOT NULL,
    detail text        NOT NULL,
    CONSTRAINT ebb_audit_pkey PRIMARY KEY (id)
);

-- Documents of workloads and of the server.
CREATE TABLE ebb_record (
    version    bigint NOT NULL,           -- writes so far
    expires_at timestamptz,               -- not there from then on
    kind       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    ref        text COLLATE "C",          -- what it belongs to
    body       bytea  NOT NULL,
    CONSTRAINT ebb_record_pkey PRIMARY KEY (kind, id)
);

CREATE INDEX ebb_record_ref ON ebb_record (kind, ref, id) WHERE ref IS NOT NULL;
CREATE INDEX ebb_record_expires ON ebb_record (expires_at) WHERE expires_at IS NOT NULL;

-- One shape for every job, wherever it stands.
CREATE VIEW ebb_live_view AS
SELECT seq, due_at, enqueued_at, deadline_at, first_start_at, last_delay, held, starts, attempts, waits, idle, crashes, epoch,
       priority, queue, kind, policy, args, target, key, key_rule, unique_key, batch, trace, free, last_class, last_error,
       fingerprint, version, progress,
       process, leased_at, begun, blocked IS NOT NULL AS blocked, CASE WHEN process IS NULL THEN 'queued' ELSE 'running' END AS state,
       NULL::text COLLATE "C" AS cause, NULL::text COLLATE "C" AS config, NULL::timestamptz AS ended_at, NULL::bytea AS result
  FROM ebb_job;

CREATE VIEW ebb_done_view AS
SELECT seq, due_at, enqueued_at, deadline_at, first_start_at, last_delay, held, starts, attempts, waits, idle, crashes, epoch,
       priority, queue, kind, policy, args, target, key, key_rule, unique_key, batch, trace, free, last_class, last_error,
       fingerprint, version, progress,
       NULL::bigint AS process, NULL::timestamptz AS leased_at, false AS begun, false AS blocked,
       CASE WHEN cancelled THEN 'cancelled' ELSE 'succeeded' END AS state,
       NULL::text COLLATE "C" AS cause, NULL::text COLLATE "C" AS config, ended_at, result
  FROM ebb_done;

CREATE VIEW ebb_dead_view AS
SELECT seq, due_at, enqueued_at, deadline_at, first_start_at, last_delay, held, starts, attempts, waits, idle, crashes, epoch,
       priority, queue, kind, policy, args, target, key, key_rule, unique_key, batch, trace, free, last_class, last_error,
       fingerprint, version, progress,
       NULL::bigint AS process, NULL::timestamptz AS leased_at, false AS begun, false AS blocked, 'failed' AS state,
       cause, NULL::text COLLATE "C" AS config, ended_at, NULL::bytea AS result
  FROM ebb_dead;

CREATE VIEW ebb_parked_view AS
SELECT seq, due_at, enqueued_at, deadline_at, first_start_at, last_delay, held, starts, attempts, waits, idle, crashes, epoch,
       priority, queue, kind, policy, args, target, key, key_rule, unique_key, batch, trace, free, last_class, last_error,
       fingerprint, version, progress,
       NULL::bigint AS process, NULL::timestamptz AS leased_at, false AS begun, false AS blocked, 'parked' AS state,
       cause, config, NULL::timestamptz AS ended_at, NULL::bytea AS result
  FROM ebb_parked;

CREATE VIEW ebb_all_view AS
SELECT * FROM ebb_live_view
UNION ALL SELECT * FROM ebb_done_view
UNION ALL SELECT * FROM ebb_dead_view
UNION ALL SELECT * FROM ebb_parked_view;

-- down

DROP TABLE ebb_record;
DROP VIEW ebb_all_view, ebb_parked_view, ebb_dead_view, ebb_done_view, ebb_live_view;
DROP TABLE ebb_periodic, ebb_paused, ebb_note, ebb_gate, ebb_look, ebb_reserved, ebb_audit, ebb_redrive, ebb_group, ebb_tally, ebb_queue, ebb_process, ebb_attempt, ebb_parked, ebb_dead,
           ebb_done, ebb_unique, ebb_job;
DROP SEQUENCE ebb_seq;
