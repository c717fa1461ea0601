-- SPDX-License-Identifier: Apache-2.0
--
-- Operations of the network from their post to their completion.

-- Every transfer.
CREATE PERFETTO TABLE waylay_transfers(
  -- On a track of its endpoint.
  id LONG,
  ts TIMESTAMP,
  -- From the post to the read of its completion.
  dur DURATION,
  upid LONG,
  call STRING,
  -- As the report names it.
  operation STRING,
  bytes LONG,
  -- As its process numbers it, NULL where it does not say.
  peer LONG,
  addr LONG,
  retries LONG,
  -- How its completion was found.
  matched STRING
) AS
SELECT
  slice.id, slice.ts, slice.dur, process_track.upid, slice.name AS call,
  CASE
    WHEN slice.name GLOB 'fi_tsend*' OR slice.name GLOB 'fi_tinject*' THEN 'tsend'
    WHEN slice.name GLOB 'fi_trecv*' THEN 'trecv'
    WHEN slice.name GLOB 'fi_inject_write*' OR slice.name GLOB 'fi_write*' THEN 'write'
    WHEN slice.name GLOB 'fi_read*' THEN 'read'
    WHEN slice.name GLOB 'fi_send*' OR slice.name GLOB 'fi_inject*' AND slice.name NOT GLOB 'fi_inject_atomic*' THEN 'send'
    WHEN slice.name GLOB 'fi_recv*' THEN 'recv'
    WHEN slice.name GLOB 'fi_fetch_atomic*' THEN 'fetch_atomic'
    WHEN slice.name GLOB 'fi_compare_atomic*' THEN 'compare_atomic'
    WHEN slice.name GLOB '*atomic*' THEN 'atomic'
    ELSE 'other'
  END AS operation,
  coalesce(EXTRACT_ARG(slice.arg_set_id, 'debug.bytes'), 0) AS bytes,
  iif(EXTRACT_ARG(slice.arg_set_id, 'debug.peer') = -1, NULL, EXTRACT_ARG(slice.arg_set_id, 'debug.peer')) AS peer,
  EXTRACT_ARG(slice.arg_set_id, 'debug.addr') AS addr,
  coalesce(EXTRACT_ARG(slice.arg_set_id, 'debug.retries'), 0) AS retries,
  EXTRACT_ARG(slice.arg_set_id, 'debug.matched') AS matched
FROM slice
JOIN process_track ON process_track.id = slice.track_id
WHERE process_track.name GLOB 'Endpoint *' AND slice.category = 'ofi_xfer';

-- `transfers` of the report.
CREATE PERFETTO VIEW waylay_transfers_by_operation(
  operation STRING,
  count LONG,
  bytes LONG,
  retries LONG
) AS
SELECT operation, count() AS count, sum(bytes) AS bytes, sum(retries) AS retries
FROM waylay_transfers
GROUP BY operation;

-- `peers` of the report.
CREATE PERFETTO VIEW waylay_transfers_by_peer(
  upid LONG,
  operation STRING,
  peer LONG,
  count LONG,
  bytes LONG
) AS
SELECT upid, operation, peer, count() AS count, sum(bytes) AS bytes
FROM waylay_transfers
GROUP BY upid, operation, peer;

-- How many transfers of each size: at most `bytes`, a power of two, and more than half of that.
CREATE PERFETTO VIEW waylay_transfers_by_size(
  operation STRING,
  at_most LONG,
  count LONG,
  bytes LONG
) AS
SELECT
  operation,
  iif(bytes <= 1, 1, 1 << cast_int!(ceil(log(bytes) / log(2) - 1e-9))) AS at_most,
  count() AS count,
  sum(bytes) AS bytes
FROM waylay_transfers
GROUP BY operation, at_most;
