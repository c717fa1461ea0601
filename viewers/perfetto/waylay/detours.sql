-- SPDX-License-Identifier: Apache-2.0
--
-- Bytes of the device that go through host memory on their way to or from the network, by address in time
-- order: that the host rewrote them in between cannot be excluded. Exact where buffers are used whole; where
-- ranges overlap in part, `waylay report` splits them more finely.

INCLUDE PERFETTO MODULE waylay.transfers;

-- Copies between the device and host memory outside of libfabric calls.
CREATE PERFETTO TABLE waylay_host_copies(
  id LONG,
  ts TIMESTAMP,
  dur DURATION,
  upid LONG,
  -- out: to the host; in: from it.
  direction STRING,
  -- Of the host memory.
  addr LONG,
  bytes LONG
) AS
WITH
  copies AS (
    SELECT
      slice.id, slice.ts, slice.dur, thread.upid,
      EXTRACT_ARG(slice.arg_set_id, 'debug.dst_kind') AS dst_kind,
      EXTRACT_ARG(slice.arg_set_id, 'debug.src_kind') AS src_kind,
      EXTRACT_ARG(slice.arg_set_id, 'debug.dst') AS dst,
      EXTRACT_ARG(slice.arg_set_id, 'debug.src') AS src,
      EXTRACT_ARG(slice.arg_set_id, 'debug.bytes') AS bytes
    FROM slice
    JOIN thread_track ON thread_track.id = slice.track_id
    JOIN thread USING (utid)
    WHERE slice.category = 'cuda_copy'
      AND EXTRACT_ARG(slice.arg_set_id, 'debug.captured') IS NULL
      AND EXTRACT_ARG(slice.arg_set_id, 'debug.in_provider') IS NULL
      AND coalesce(EXTRACT_ARG(slice.arg_set_id, 'debug.status'), 0) = 0
  )
SELECT id, ts, dur, upid, 'out' AS direction, dst AS addr, bytes
FROM copies
WHERE src_kind IN ('device', 'array') AND dst_kind IN ('pageable', 'pinned')
UNION ALL
SELECT id, ts, dur, upid, 'in' AS direction, src AS addr, bytes
FROM copies
WHERE dst_kind IN ('device', 'array') AND src_kind IN ('pageable', 'pinned');

-- What put bytes into host memory: copies from the device and receives.
CREATE PERFETTO TABLE _waylay_fills AS
SELECT ts + dur AS at, upid, addr, bytes, 'device' AS what, id
FROM waylay_host_copies
WHERE direction = 'out'
UNION ALL
SELECT ts + dur AS at, upid, addr, bytes, 'network' AS what, id
FROM waylay_transfers
WHERE operation IN ('recv', 'trecv', 'read') AND matched GLOB 'completion*';

-- Sends of what a copy from the device had put there last.
CREATE PERFETTO TABLE waylay_detours_out(
  -- The transfer.
  id LONG,
  upid LONG,
  bytes LONG,
  -- The copy.
  copy_id LONG
) AS
SELECT
  send.id, send.upid,
  min(send.addr + send.bytes, fill.addr + fill.bytes) - max(send.addr, fill.addr) AS bytes,
  fill.id AS copy_id
FROM waylay_transfers AS send
JOIN _waylay_fills AS fill
  ON fill.upid = send.upid AND fill.addr < send.addr + send.bytes AND fill.addr + fill.bytes > send.addr
  AND fill.at <= send.ts AND fill.what = 'device'
WHERE send.operation IN ('send', 'tsend', 'write', 'atomic')
  AND NOT EXISTS (
    SELECT 1
    FROM _waylay_fills AS later
    WHERE later.upid = send.upid AND later.at > fill.at AND later.at <= send.ts
      AND later.addr < min(send.addr + send.bytes, fill.addr + fill.bytes)
      AND later.addr + later.bytes > max(send.addr, fill.addr)
  );

-- Copies to the device of what the network had put there last, each receive once.
CREATE PERFETTO TABLE waylay_detours_in(
  -- The copy.
  id LONG,
  upid LONG,
  bytes LONG,
  -- The receive.
  transfer_id LONG
) AS
WITH
  pairs AS (
    SELECT
      copy.id, copy.upid, copy.ts + copy.dur AS at,
      min(copy.addr + copy.bytes, fill.addr + fill.bytes) - max(copy.addr, fill.addr) AS bytes,
      fill.id AS transfer_id
    FROM waylay_host_copies AS copy
    JOIN _waylay_fills AS fill
      ON fill.upid = copy.upid AND fill.addr < copy.addr + copy.bytes AND fill.addr + fill.bytes > copy.addr
      AND fill.at <= copy.ts + copy.dur AND fill.what = 'network'
    WHERE copy.direction = 'in'
      AND NOT EXISTS (
        SELECT 1
        FROM _waylay_fills AS later
        WHERE later.upid = copy.upid AND later.at > fill.at AND later.at <= copy.ts + copy.dur
          AND later.addr < min(copy.addr + copy.bytes, fill.addr + fill.bytes)
          AND later.addr + later.bytes > max(copy.addr, fill.addr)
      )
  ),
  first AS (
    SELECT *, row_number() OVER (PARTITION BY transfer_id ORDER BY at) AS number
    FROM pairs
  )
SELECT id, upid, bytes, transfer_id
FROM first
WHERE number = 1;

-- `detours.copied_out` and `detours.copied_in` of the report.
CREATE PERFETTO VIEW waylay_detours_totals(
  way STRING,
  transfers LONG,
  bytes LONG,
  copies LONG
) AS
SELECT 'copied_out' AS way, count(DISTINCT id) AS transfers, coalesce(sum(bytes), 0) AS bytes, count(DISTINCT copy_id) AS copies
FROM waylay_detours_out
UNION ALL
SELECT 'copied_in' AS way, count(DISTINCT transfer_id) AS transfers, coalesce(sum(bytes), 0) AS bytes, count(DISTINCT id) AS copies
FROM waylay_detours_in;
