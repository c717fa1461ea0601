#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a Perfetto trace holds the rows of a trace of torch.profiler's, each with its arrow.

  check_with.py TRACE KINETO_JSON

Every row of a GPU in the file has one of its name and length in the trace, all shifted by one time; each that a
recorded call caused has an arrow from that call, which began before it. Exits 0 or 1.
"""
import gzip
import json
import sys
from collections import Counter
from decimal import Decimal

sys.dont_write_bytecode = True  # the sources stay as they are

import check_trace

GPU = ('kernel', 'gpu_memcpy', 'gpu_memset')


def main():
    opened = gzip.open if sys.argv[2].endswith('.gz') else open
    with opened(sys.argv[2], 'rb') as file:
        events = json.loads(file.read().decode('utf-8'), parse_float=Decimal)['traceEvents']
    rows = [event for event in events if event.get('ph') == 'X' and event.get('cat') in GPU]
    first = min(Decimal(row['ts']) for row in rows)
    wanted = Counter((row['name'], int((Decimal(row['ts']) - first) * 1000), int(Decimal(row['dur']) * 1000))
                     for row in rows)
    replay = check_trace.Replay(check_trace.Trace(check_trace.load_schema(), sys.argv[1]))
    start = min(item.begin for item in replay.gpu)
    got = Counter((item.name, item.begin - start, item.end - item.begin) for item in replay.gpu)
    if {key[0] for key in got} != {key[0] for key in wanted} or sum(got.values()) != sum(wanted.values()):
        print('check_with: %d rows, not %d' % (sum(got.values()), sum(wanted.values())))
        return 1
    # A begin, its difference to the first and a length are cut to nanoseconds each.
    for (name, begin, length), count in wanted.items():
        near = sum(got[(name, begin + b, length + d)] for b in (-1, 0, 1) for d in (-1, 0, 1))
        if near < count:
            print('check_with: %s at %d is not there' % (name, begin))
            return 1
    linked = [item for item in replay.gpu if item.event in replay.submitters]
    early = [item.name for item in linked if replay.submitters[item.event].begin > item.begin]
    print('check_with: %d rows, %d with an arrow from their call' % (len(replay.gpu), len(linked)))
    if early or len(linked) * 2 < len(replay.gpu):
        print('check_with: before their calls: %s' % early[:3])
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
