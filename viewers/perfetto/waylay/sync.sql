-- SPDX-License-Identifier: Apache-2.0
--
-- Synchronizations and staged copies, as `waylay report` counts them.

-- Every call that waited or was staged. A copy that waited and the explicit wait that follows it on the same
-- stream, from the same place and thread, with no work given in between, are one synchronization: the wait is
-- folded.
CREATE PERFETTO TABLE waylay_sync(
  -- On the track Synchronizations; of a staged call on its thread.
  id LONG,
  ts TIMESTAMP,
  -- How long it held the host.
  dur DURATION,
  upid LONG,
  tid LONG,
  -- Entry of the driver.
  call STRING,
  -- Why it held the host.
  rule STRING,
  -- waits or stages.
  class STRING,
  -- Line of source to blame.
  place STRING,
  bytes LONG,
  -- 1: counted with the copy before it.
  folded LONG,
  -- Rule of the synchronization that it is part of: of a folded wait the copy's.
  counted_rule STRING
) AS
WITH
  held AS (
    SELECT
      slice.id, slice.ts, slice.dur, process_track.upid, slice.name AS call,
      EXTRACT_ARG(slice.arg_set_id, 'debug.tid') AS tid,
      EXTRACT_ARG(slice.arg_set_id, 'debug.rule') AS rule,
      EXTRACT_ARG(slice.arg_set_id, 'debug.class') AS class,
      EXTRACT_ARG(slice.arg_set_id, 'debug.place') AS place
    FROM slice
    JOIN process_track ON process_track.id = slice.track_id
    WHERE process_track.name = 'Synchronizations'
  ),
  -- What each thread did that can come between a copy and its wait.
  calls AS (
    SELECT
      slice.id AS call_id, slice.ts, slice.dur, slice.name, slice.category, thread.upid, thread.tid, thread.utid,
      EXTRACT_ARG(slice.arg_set_id, 'debug.stream') AS stream,
      EXTRACT_ARG(slice.arg_set_id, 'debug.bytes') AS bytes,
      EXTRACT_ARG(slice.arg_set_id, 'debug.cls') AS class,
      EXTRACT_ARG(slice.arg_set_id, 'debug.rule') AS call_rule,
      EXTRACT_ARG(slice.arg_set_id, 'debug.place') AS call_place,
      EXTRACT_ARG(slice.arg_set_id, 'debug.op') AS op
    FROM slice
    JOIN thread_track ON thread_track.id = slice.track_id
    JOIN thread USING (utid)
    WHERE slice.category GLOB 'cuda_*'
      AND EXTRACT_ARG(slice.arg_set_id, 'debug.captured') IS NULL
  ),
  ordered AS (
    SELECT
      calls.*, held.id AS held_id, held.rule, held.place,
      LAG(calls.name) OVER before AS last_name, LAG(calls.category) OVER before AS last_category,
      LAG(calls.class) OVER before AS last_class, LAG(calls.stream) OVER before AS last_stream,
      LAG(held.place) OVER before AS last_place, LAG(held.rule) OVER before AS last_rule
    FROM calls
    LEFT JOIN held
      ON held.upid = calls.upid AND held.ts = calls.ts AND held.dur = calls.dur AND held.call = calls.name
      AND held.tid = calls.tid
    WHERE calls.class IN ('waits', 'stages')
      OR calls.category IN ('cuda_launch', 'cuda_copy', 'cuda_graph') AND calls.name NOT GLOB 'cuEvent*'
        AND calls.name NOT GLOB 'cuStreamWaitEvent*'
      OR calls.op = 'prefetch'
    WINDOW before AS (PARTITION BY calls.utid ORDER BY calls.ts + calls.dur, calls.call_id)
  ),
  waits AS (
    SELECT
      held.*, coalesce(ordered.bytes, 0) AS bytes, ordered.last_rule,
      coalesce(
        ordered.category = 'cuda_sync' AND held.rule IN ('stream_wait', 'legacy_wait')
        AND ordered.last_category = 'cuda_copy' AND ordered.last_name NOT GLOB 'cuMemset*'
        AND ordered.last_class = 'waits' AND ordered.last_stream IS ordered.stream
        AND ordered.last_place = held.place,
        0
      ) AS folded
    FROM held
    LEFT JOIN ordered ON ordered.held_id = held.id
  )
SELECT
  id, ts, dur, upid, tid, call, rule, class, place, bytes, folded, iif(folded, last_rule, rule) AS counted_rule
FROM waits
UNION ALL
SELECT
  call_id AS id, ts, dur, upid, tid, name AS call, call_rule AS rule, class,
  coalesce(call_place, '(no stack)') AS place, coalesce(bytes, 0) AS bytes, 0 AS folded, call_rule AS counted_rule
FROM ordered
WHERE held_id IS NULL AND class = 'stages';

-- Each place, rule and class, costliest first: `sites` of the report.
CREATE PERFETTO VIEW waylay_sync_by_place(
  place STRING,
  rule STRING,
  class STRING,
  -- Folded waits are not counted.
  count LONG,
  folded LONG,
  held_ns LONG,
  held_max_ns LONG,
  bytes LONG
) AS
SELECT
  place, counted_rule AS rule, class, sum(NOT folded) AS count, sum(folded) AS folded, sum(dur) AS held_ns,
  max(dur) AS held_max_ns, sum(iif(folded, 0, bytes)) AS bytes
FROM waylay_sync
GROUP BY place, counted_rule, class
ORDER BY held_ns DESC, count DESC;

-- `totals` of the report.
CREATE PERFETTO VIEW waylay_sync_totals(
  synchronizations LONG,
  staged LONG,
  held_ns LONG
) AS
SELECT
  coalesce(sum(class = 'waits' AND NOT folded), 0) AS synchronizations,
  coalesce(sum(class = 'stages'), 0) AS staged,
  coalesce(sum(dur), 0) AS held_ns
FROM waylay_sync;
