#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What Perfetto's own trace processor makes of a trace.

  check_processor.py TRACE_PROCESSOR_SHELL TRACE [DUMP]

No import error or data-loss statistic may be above zero, nor the listed ones of less severity, and its
tables must hold exactly the slices, parents, instants, counter values and flows that check_trace.py's
replay finds; of a Chrome trace, the slices and lengths that check_chrome.py finds. Exits 0 or 1; 77
without protobuf.
"""
import csv
import io
import os
import subprocess
import sys
from collections import Counter

sys.dont_write_bytecode = True  # the sources stay as they are
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_chrome
import check_trace

INFO = ('track_event_parser_errors', 'track_event_tokenizer_errors', 'track_hierarchy_missing_uuid',
        'tokenizer_skipped_packets', 'interned_data_tokenizer_errors', 'flow_step_without_start',
        'flow_end_without_start', 'graphics_frame_event_parser_errors')


def plain(text):
    """Names as they come out of the shell's tables, which do not escape quotes."""
    return text.replace('"', '')


def query(shell, trace, sql):
    done = subprocess.run([shell, 'query', trace, sql], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    return list(csv.reader(io.StringIO(done.stdout.decode())))[1:]


def chrome(shell, path):
    """Slices and instants of threads, and asynchronous pairs, with their lengths; arrows."""
    read = check_chrome.Chrome(path)
    wanted = [(plain(event['name']), end - begin) for slices in read.slices.values()
              for begin, end, event in slices]
    wanted += [(plain(event['name']), 0) for instants in read.instants.values() for _, event in instants]
    wanted += [(plain(pair['b'][2]['name']), pair['e'][0] - pair['b'][0]) for pair in read.pairs.values()]
    rows = query(shell, path, 'SELECT REPLACE(name, char(34), ""), dur FROM slice')
    try:
        check_trace.compare('slices', [(plain(name), int(dur)) for name, dur in rows], wanted)
    except check_trace.Wrong as error:
        print('check_processor: %s: %s' % (path, error))
        return 1
    flows = int(query(shell, path, 'SELECT COUNT(*) FROM flow')[0][0])
    if flows != len(read.arrows):
        print('check_processor: %s: %d flows, not %d' % (path, flows, len(read.arrows)))
        return 1
    print('check_processor: %d slices and instants, %d flows' % (len(rows), flows))
    return 0


def main():
    shell, path = sys.argv[1:3]
    wrong = query(shell, path, "SELECT name, severity, value FROM stats WHERE value > 0 AND "
                  "(severity != 'info' OR name IN (%s))" % ','.join("'%s'" % name for name in INFO))
    if wrong:
        print('check_processor: %s: statistics %s' % (path, wrong))
        return 1
    if not path.endswith('.pftrace'):
        return chrome(shell, path)
    replay = check_trace.Replay(check_trace.Trace(check_trace.load_schema(), path))
    wanted = Counter()
    for items in list(replay.slices.values()) + list(replay.instants.values()):
        for item in items:
            parent = item.parent.key() if item.parent else ('', 0, 0)
            wanted[(plain(item.name),) + item.key()[1:] + (item.depth, plain(parent[0])) +
                   parent[1:]] += 1
    for item in replay.gpu:
        wanted[(plain(item.name), item.begin, item.end - item.begin, 0, '', 0, 0)] += 1
    rows = query(shell, path, 'SELECT REPLACE(s.name, char(34), ""), s.ts, s.dur, s.depth, '
                 'IFNULL(REPLACE(p.name, char(34), ""), ""), '
                 'IFNULL(p.ts, 0), IFNULL(p.dur, 0) FROM slice s LEFT JOIN slice p '
                 'ON s.parent_id = p.id')
    got = Counter((plain(name), int(ts), int(dur), int(depth), plain(parent), int(parent_ts),
                   int(parent_dur))
                  for name, ts, dur, depth, parent, parent_ts, parent_dur in rows)
    try:
        check_trace.compare('slices', got.elements(), wanted.elements())
    except check_trace.Wrong as error:
        print('check_processor: %s: %s' % (path, error))
        return 1
    counters = int(query(shell, path, 'SELECT COUNT(*) FROM counter')[0][0])
    flows = int(query(shell, path, 'SELECT COUNT(*) FROM flow')[0][0])
    arrows = sum(len(ends) - 1 for ends in replay.flow_ends.values()) + replay.launches()
    stacks = int(query(shell, path, 'SELECT COUNT(*) FROM __intrinsic_track_event_callstacks')[0][0])
    framed = sum(item.frames is not None for items in
                 list(replay.slices.values()) + list(replay.instants.values()) for item in items)
    if (counters, flows, stacks) != (replay.totals()[2], arrows, framed):
        print('check_processor: %s: counters, flows, stacks: %s, not %s' %
              (path, (counters, flows, stacks), (replay.totals()[2], arrows, framed)))
        return 1
    print('check_processor: %d slices and instants, %d counter values, %d flows, %d stacks' %
          (len(rows), counters, flows, stacks))
    return 0


if __name__ == '__main__':
    sys.exit(main())
