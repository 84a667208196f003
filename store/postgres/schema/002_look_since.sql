-- What a look may stand for that whoever claims the lane by name has not seen:
-- jobs that are due from this instant on. '-infinity' is not known, 'infinity'
-- is none: the lane was looked through since. A claim that begins where the last
-- one ended need not go back while no look of its part says so.
ALTER TABLE ebb_look ADD COLUMN since timestamptz NOT NULL DEFAULT '-infinity';

-- down
-- Keeps everything.

ALTER TABLE ebb_look DROP COLUMN since;
