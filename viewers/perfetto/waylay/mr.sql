-- SPDX-License-Identifier: Apache-2.0
--
-- Registrations of memory with libfabric, and what a cache would have saved.

-- Every registration that succeeded, in order.
CREATE PERFETTO TABLE waylay_mr(
  -- The call, on its thread.
  id LONG,
  ts TIMESTAMP,
  -- What it cost.
  dur DURATION,
  upid LONG,
  -- Line of source to blame.
  place STRING,
  addr LONG,
  bytes LONG,
  -- Of the first and behind the last page.
  first_page LONG,
  end_page LONG,
  -- 1: this range of pages had been registered before in this process.
  repeated LONG,
  -- Of the registration among those of its process, from 1.
  number LONG
) AS
WITH
  calls AS (
    SELECT
      slice.id, slice.ts, slice.dur, thread.upid,
      coalesce(EXTRACT_ARG(slice.arg_set_id, 'debug.place'), '(no stack)') AS place,
      EXTRACT_ARG(slice.arg_set_id, 'debug.addr') AS addr,
      coalesce(EXTRACT_ARG(slice.arg_set_id, 'debug.bytes'), 0) AS bytes
    FROM slice
    JOIN thread_track ON thread_track.id = slice.track_id
    JOIN thread USING (utid)
    WHERE slice.category = 'ofi_mr' AND slice.name GLOB 'fi_mr_reg*'
      AND coalesce(EXTRACT_ARG(slice.arg_set_id, 'debug.status'), 0) = 0
  ),
  pages AS (
    SELECT *, addr / 4096 AS first_page, (addr + bytes + 4095) / 4096 AS end_page
    FROM calls
  )
SELECT
  id, ts, dur, upid, place, addr, bytes, first_page, end_page,
  row_number() OVER (PARTITION BY upid, first_page, end_page ORDER BY ts + dur, id) > 1 AS repeated,
  row_number() OVER (PARTITION BY upid ORDER BY ts + dur, id) AS number
FROM pages;

-- For each repeated registration how many entries a least-recently-used cache must have had for a hit: the
-- different ranges since the last time, and itself.
CREATE PERFETTO TABLE waylay_mr_reuse(
  id LONG,
  entries LONG,
  dur DURATION
) AS
WITH
  twice AS (
    SELECT
      *,
      lag(number) OVER (PARTITION BY upid, first_page, end_page ORDER BY number) AS last
    FROM waylay_mr
  )
SELECT
  twice.id,
  (
    SELECT count(DISTINCT between_.first_page || ' ' || between_.end_page)
    FROM waylay_mr AS between_
    WHERE between_.upid = twice.upid AND between_.number >= twice.last AND between_.number < twice.number
  ) AS entries,
  twice.dur
FROM twice
WHERE twice.last IS NOT NULL;

-- What a cache of so many entries in each process would have saved, at most.
CREATE PERFETTO FUNCTION waylay_mr_cache(
  -- Entries of the cache.
  entries LONG
)
RETURNS TABLE(
  hits LONG,
  saved_ns LONG
) AS
SELECT count() AS hits, coalesce(sum(dur), 0) AS saved_ns
FROM waylay_mr_reuse
WHERE waylay_mr_reuse.entries <= $entries;

-- `registrations` of the report.
CREATE PERFETTO VIEW waylay_mr_totals(
  count LONG,
  repeated LONG,
  bytes LONG
) AS
SELECT count() AS count, coalesce(sum(repeated), 0) AS repeated, coalesce(sum(bytes), 0) AS bytes
FROM waylay_mr;

-- `registrations.sites` of the report.
CREATE PERFETTO VIEW waylay_mr_by_place(
  place STRING,
  count LONG,
  repeated LONG,
  held_ns LONG,
  bytes LONG
) AS
SELECT place, count() AS count, sum(repeated) AS repeated, sum(dur) AS held_ns, sum(bytes) AS bytes
FROM waylay_mr
GROUP BY place
ORDER BY held_ns DESC, count DESC;
