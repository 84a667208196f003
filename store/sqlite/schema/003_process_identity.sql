-- What tells a process from every other that had or will have its pid. A worker
-- on the same host knows by it that the process is gone, and need not wait for
-- the lease. Empty = not known.
ALTER TABLE ebb_process ADD COLUMN identity TEXT NOT NULL DEFAULT '';

-- down

-- Keeps everything.
ALTER TABLE ebb_process DROP COLUMN identity;
