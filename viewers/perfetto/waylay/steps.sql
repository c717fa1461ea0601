-- SPDX-License-Identifier: Apache-2.0
--
-- NVTX ranges, what happened inside them, and steps.

INCLUDE PERFETTO MODULE waylay.mr;

INCLUDE PERFETTO MODULE waylay.sync;

-- Instances of named ranges.
CREATE PERFETTO TABLE waylay_ranges(
  id LONG,
  ts TIMESTAMP,
  dur DURATION,
  upid LONG,
  name STRING,
  -- Of ranges of its thread around it.
  depth LONG
) AS
SELECT slice.id, slice.ts, slice.dur, thread.upid, slice.name, slice.depth
FROM slice
JOIN thread_track ON thread_track.id = slice.track_id
JOIN thread USING (utid)
WHERE slice.category = 'nvtx' AND slice.dur >= 0
  AND EXTRACT_ARG(slice.arg_set_id, 'debug.continued') IS NULL
  AND EXTRACT_ARG(slice.arg_set_id, 'debug.open_at_end') IS NULL;

-- What holds the host or registers memory.
CREATE PERFETTO TABLE _waylay_counted AS
SELECT upid, ts, dur, class = 'waits' AND NOT folded AS waits, class = 'stages' AS stages, 0 AS registers
FROM waylay_sync
UNION ALL
SELECT upid, ts, dur, 0 AS waits, 0 AS stages, 1 AS registers
FROM waylay_mr;

-- What began inside each instance, on any thread of its process.
CREATE PERFETTO TABLE waylay_ranges_inside(
  id LONG,
  name STRING,
  upid LONG,
  dur DURATION,
  synchronizations LONG,
  staged LONG,
  registrations LONG,
  -- By all of these.
  held_ns LONG
) AS
SELECT
  range.id, range.name, range.upid, range.dur,
  coalesce(sum(counted.waits), 0) AS synchronizations,
  coalesce(sum(counted.stages), 0) AS staged,
  coalesce(sum(counted.registers), 0) AS registrations,
  coalesce(sum(counted.dur), 0) AS held_ns
FROM waylay_ranges AS range
LEFT JOIN _waylay_counted AS counted
  ON counted.upid = range.upid AND counted.ts >= range.ts AND counted.ts < range.ts + range.dur
GROUP BY range.id;

-- `ranges` of the report.
CREATE PERFETTO VIEW waylay_ranges_totals(
  name STRING,
  instances LONG,
  synchronizations LONG,
  synchronizations_worst LONG,
  staged LONG,
  registrations LONG,
  held_ns LONG
) AS
SELECT
  name, count() AS instances, sum(synchronizations) AS synchronizations,
  max(synchronizations) AS synchronizations_worst, sum(staged) AS staged,
  sum(registrations) AS registrations, sum(held_ns) AS held_ns
FROM waylay_ranges_inside
GROUP BY name;

-- The range that is the job's steps: the one that sounds most like it, else the outermost that took longest.
CREATE PERFETTO VIEW waylay_step_name(
  name STRING
) AS
SELECT name
FROM waylay_ranges
WHERE depth = 0 OR name LIKE '%step%' OR name LIKE '%iter%' OR name LIKE '%batch%'
GROUP BY name
HAVING count() > 1
ORDER BY
  iif(name LIKE '%step%', 3, iif(name LIKE '%iter%', 2, iif(name LIKE '%batch%', 1, 0))) DESC,
  sum(dur) DESC
LIMIT 1;

-- Steps, each with what happened in it.
CREATE PERFETTO VIEW waylay_steps(
  id LONG,
  upid LONG,
  -- From 0 in its process.
  step LONG,
  dur DURATION,
  synchronizations LONG,
  staged LONG,
  registrations LONG,
  held_ns LONG
) AS
SELECT
  id, upid, row_number() OVER (PARTITION BY upid ORDER BY id) - 1 AS step, dur, synchronizations, staged,
  registrations, held_ns
FROM waylay_ranges_inside
WHERE name = (SELECT name FROM waylay_step_name);

-- `steps.processes` of the report.
CREATE PERFETTO VIEW waylay_steps_by_process(
  upid LONG,
  steps LONG,
  length_p50_ns LONG
) AS
WITH
  ordered AS (
    SELECT
      upid, dur, row_number() OVER (PARTITION BY upid ORDER BY dur) AS number, count() OVER (PARTITION BY upid) AS count
    FROM waylay_steps
  )
SELECT upid, count AS steps, dur AS length_p50_ns
FROM ordered
WHERE number = (count + 1) / 2;
