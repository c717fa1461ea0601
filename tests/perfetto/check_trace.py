#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Strict check of a Perfetto trace.

  check_trace.py TRACE [DUMP]

Decodes TRACE with protoc's classes for waylay_trace.proto and applies every rule whose breach would
raise an import error or lose data in Perfetto, then replays the slices. With DUMP (made by dump_trace
from the recordings) it compares every slice, instant, synchronization, transfer and registration with
the recording's own records: name, begin, duration, parent, track.

Prints one line of counts and exits 0, or prints what is wrong and exits 1; 77 without protobuf.
"""
import json
import math
import re
import sys
from collections import Counter, defaultdict

sys.dont_write_bytecode = True  # the sources stay as they are

from trace_rules import COUNTER, END, INSTANT, Trace, Wrong, check_field_table, load_schema

DEPTH_MAX = 512
WAITS = 1


def annotations(event, interned):
    found = {}
    for annotation in event.debug_annotations:
        name = interned['debug_annotation_names'][annotation.name_iid].str.decode()
        kind = annotation.WhichOneof('value')
        value = getattr(annotation, kind)
        if kind == 'string_value_iid':
            value = interned['debug_annotation_string_values'][value].str.decode()
        if isinstance(value, float) and not math.isfinite(value):
            value = '%g' % value  # as in the dump: it is no number of JSON
        if name in found:
            raise Wrong('argument %s twice on an event' % name)
        found[name] = value
    return found


def frames_of(event, interned):
    if not event.callstack_iid:
        return None
    frames = []
    for iid in interned['callstacks'][event.callstack_iid].frame_ids:
        frame = interned['frames'][iid]
        source = interned['source_paths'][frame.source_path_iid].str.decode() \
            if frame.source_path_iid else ''
        frames.append((interned['function_names'][frame.function_name_id].str.decode(), source,
                       frame.line_number))
    return frames


class Slice:
    __slots__ = ('name', 'category', 'begin', 'end', 'parent', 'depth', 'track', 'args', 'flows',
                 'frames', 'instant', 'arrivals')

    def key(self):
        return (self.name, self.begin, self.end - self.begin)


class Replay:
    """Slices as Perfetto builds them: events by time, those of one time in file order."""

    def __init__(self, trace):
        self.slices = defaultdict(list)     # track -> slices in order of begin
        self.instants = defaultdict(list)
        self.counters = defaultdict(list)   # track -> (ts, value)
        self.flow_ends = defaultdict(list)
        self.submitters = {}                # event id of device work -> slice
        self.gpu = trace.gpu
        stacks = defaultdict(list)
        last_instant = {}
        for ts, _, track, event, interned in sorted(trace.events, key=lambda item: item[:2]):
            stack = stacks[track]
            if event.type == COUNTER:
                self.counters[track].append((ts, event.counter_value))
                continue
            if event.type == INSTANT and last_instant.get(track) == ts:
                raise Wrong('two instants at %d on track %#x would nest' % (ts, track))
            last_instant[track] = ts if event.type == INSTANT else None
            if event.type == END:
                if not stack:
                    raise Wrong('an end without a begin at %d on track %#x' % (ts, track))
                ended = stack.pop()
                ended.end = ts
                ended.args.update(annotations(event, interned))
                for flow in event.flow_ids:
                    ended.arrivals.append(flow)
                    self.flow_ends[flow].append(ended)
                continue
            made = Slice()
            made.name = interned['event_names'][event.name_iid].str.decode()
            made.category = interned['event_categories'][event.category_iids[0]].str.decode()
            made.begin = ts
            made.end = ts
            made.parent = stack[-1] if stack else None
            made.depth = len(stack)
            made.track = track
            made.args = annotations(event, interned)
            made.flows = list(event.flow_ids)
            made.arrivals = []
            for submitted in event.gpu_correlation.render_stage_submission_event_ids:
                if submitted in self.submitters:
                    raise Wrong('device work submitted by two slices')
                self.submitters[submitted] = made
            made.frames = frames_of(event, interned)
            made.instant = event.type == INSTANT
            for flow in made.flows:
                self.flow_ends[flow].append(made)
            if event.type == INSTANT:
                self.instants[track].append(made)
                continue
            stack.append(made)
            if len(stack) >= DEPTH_MAX:
                raise Wrong('slices nest %d deep on track %#x' % (len(stack), track))
            self.slices[track].append(made)
        for track, stack in stacks.items():
            if stack:
                raise Wrong('%s on track %#x never ends' % (stack[-1].name, track))

    def launches(self):
        """Arrows from calls to device work."""
        return sum(item.event in self.submitters for item in self.gpu)

    def totals(self):
        return (sum(map(len, self.slices.values())), sum(map(len, self.instants.values())),
                sum(map(len, self.counters.values())))


# --- against the recording ------------------------------------------------------------------------


class Record:
    def __init__(self, line):
        self.__dict__.update(line)
        self.parent = None
        self.depth = 0

    def key(self):
        return (self.name, self.begin, self.end - self.begin)


def holds(outer, inner):
    """Whether a call recorded later is around one recorded earlier."""
    if inner.begin != outer.begin:
        return inner.begin > outer.begin
    return inner.form == 'call' and (inner.end > inner.begin or inner.inside)


def expect_thread(records, end):
    """Parents of calls and ranges, found backwards: in reverse order of end, parents come first.

    Returns slices, instants, and whether any range was cut by a call or by another range."""
    slices, instants, stack, cut = [], [], [], False
    records = [record for record in records if not record.run]
    pairs, open_ranges = {}, defaultdict(list)
    for index, record in enumerate(records):
        if record.form == 'begin':
            open_ranges[record.domain].append(index)
        elif record.form == 'end' and open_ranges[record.domain]:
            pairs[index] = open_ranges[record.domain].pop()
    left = sorted(index for indexes in open_ranges.values() for index in indexes)
    ranges = {}
    for begin, until, open_at_end in [(pairs[i], i, False) for i in pairs] + \
            [(i, len(records), True) for i in left]:
        made = records[begin]
        made.end = end if open_at_end else records[until].begin
        made.open_at_end = open_at_end
        ranges[until] = ranges.get(until, []) + [made]
        slices.append(made)

    def settle(record):
        while stack and stack[-1].form == 'call' and not holds(stack[-1], record):
            stack.pop()
        record.parent = stack[-1] if stack else None
        record.depth = len(stack)

    def open_range(made):
        settle(Record({'name': '', 'begin': made.end, 'end': made.end, 'form': 'end'}))
        made.parent = stack[-1] if stack else None
        made.depth = len(stack)
        stack.append(made)

    for made in ranges.get(len(records), []):
        stack.append(made)
        made.parent = stack[-2] if len(stack) > 1 else None
        made.depth = len(stack) - 1
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if record.form == 'call':
            settle(record)
            stack.append(record)
            slices.append(record)
        elif record.form == 'begin':
            while stack and stack[-1].form == 'call' and not holds(stack[-1], record):
                stack.pop()
            if record in stack:
                crossed = [item for item in stack if item.form == 'call' and
                           not holds(item, record)]
                cut |= stack[-1] is not record or bool(crossed)
                stack = [item for item in stack if item is not record and item not in crossed]
        elif record.form == 'end':
            for made in ranges.get(index, []):
                open_range(made)
        else:
            instants.append(record)
    return slices, instants, cut


def join_pieces(slices):
    """A range told in pieces, as one; parents of such threads are not compared."""
    joined, last = [], {}
    for item in sorted(slices, key=lambda item: item.begin):
        if item.args.get('continued'):
            whole = last[item.name]
            whole.end = max(whole.end, item.end)
            whole.args.update(item.args)
        else:
            last[item.name] = item
            joined.append(item)
    return joined


def compare(what, got, wanted):
    got, wanted = Counter(list(got)), Counter(list(wanted))
    if got == wanted:
        return
    extra, missing = list((got - wanted).items())[:3], list((wanted - got).items())[:3]
    raise Wrong('%s differ: in the trace only %s; in the recording only %s' % (what, extra, missing))


FLAGS = ('captured', 'in_provider', 'inner_layer', 'guessed')     # of calls
STAGES = {'gpu_kernel': 'Kernel', 'gpu_copy': 'Copy', 'gpu_memset': 'Memset', 'gpu_graph': 'Graph',
          'gpu_sync': 'Wait'}


def device_name(record):
    if record.type == 'gpu_kernel':
        return record.args.get('name', 'kernel')
    if record.type == 'gpu_copy':
        return 'copy %s to %s' % (record.args.get('src_kind', 'unknown'), record.args.get('dst_kind', 'unknown'))
    if record.type == 'gpu_sync':
        return 'wait: %s' % record.args.get('wait', 'other')
    return record.type[len('gpu_'):]


def parent_key(item):
    return item.parent.key() if item.parent else None


class Against:
    def __init__(self, trace, replay, path):
        self.trace, self.replay = trace, replay
        self.lines = defaultdict(list)
        with open(path, encoding='utf-8', errors='replace') as file:
            for text in file:
                line = json.loads(text)
                self.lines[line['kind']].append(line)
        self.pieces = 0
        self.records = 0
        self.transfers = 0
        self.messages = 0

    def run(self):
        processes = {line['pid']: line for line in self.lines['process']}
        if set(processes) != set(self.trace.processes):
            raise Wrong('processes %s, recorded %s' % (sorted(self.trace.processes),
                                                       sorted(processes)))
        threads = {(line['pid'], line['tid']): line for line in self.lines['thread']}
        if set(threads) != set(self.trace.threads):
            raise Wrong('threads %s, recorded %s' % (sorted(self.trace.threads), sorted(threads)))
        by_thread, of_devices = defaultdict(list), defaultdict(list)
        for line in self.lines['record']:
            if line['category'] == 'gpu':
                of_devices[line['pid']].append(Record(line))
            else:
                by_thread[(line['pid'], line['tid'])].append(Record(line))
            self.records += 1
        self.devices(of_devices)
        used = set()
        for key, line in threads.items():
            uuid = self.trace.threads[key]
            used.add(uuid)
            self.thread(key, uuid, by_thread[key], processes[key[0]])
        for pid in processes:
            self.process(pid, [record for key, records in by_thread.items() if key[0] == pid
                               for record in records], used)
        self.messages_arrive()
        rest = [track for track in self.replay.slices if track not in used]
        if rest:
            raise Wrong('slices on a track of no known meaning: %s' %
                        self.trace.tracks[rest[0]].name)

    def devices(self, records):
        """Every piece of device work with its arguments, under the process that had it done."""
        compare('device work', [(item.pid, item.name, item.begin, item.end, item.stage,
                                 tuple(sorted(item.args.items()))) for item in self.replay.gpu
                                if item.args.get('source') != 'torch.profiler'],
                [(pid, device_name(record), record.begin, record.end, STAGES[record.type],
                  tuple(sorted((name, value) for name, value in record.args.items() if name != 'name' and
                               name not in FLAGS and not (name == 'node' and not value) and
                               not (name.endswith('_kind') and value == 'unknown'))))
                 for pid, found in records.items() for record in found if record.type != 'gpu_stream'])
        for item in self.replay.gpu:
            call = self.replay.submitters.get(item.event)
            if call is None:
                continue
            if call.begin > item.begin:
                raise Wrong('%s began before the call that caused it' % item.name)
            if item.stage == 'Kernel' and not item.args.get('graph') and \
                    call.args.get('kernel', item.name) != item.name or \
                    item.stage in ('Copy', 'Memset') and not item.args.get('graph') and \
                    call.args['bytes'] != item.args['bytes']:
                raise Wrong('%s at %d was not caused by %s' % (item.name, item.begin, call.args))

    def slices_and_instants(self, uuid, wanted):
        """Instants of one time are told as slices of no length, all but every other one."""
        slices, instants = [], list(self.replay.instants[uuid])
        missing = Counter((item.name, item.begin, item.category) for item in wanted)
        missing.subtract((item.name, item.begin, item.category) for item in instants)
        for item in self.replay.slices[uuid]:
            key = (item.name, item.begin, item.category)
            if item.begin == item.end and missing[key] > 0 and not item.args.get('continued'):
                missing[key] -= 1
                item.instant = True
                instants.append(item)
            else:
                slices.append(item)
        return slices, instants

    def thread(self, key, uuid, records, process):
        end = max([process['end']] + [record.end for record in records])
        slices, instants, cut = expect_thread(records, end)
        got, points = self.slices_and_instants(uuid, instants)
        whole = join_pieces(got)
        self.pieces += len(got) - len(whole)
        if not cut and len(got) != len(whole):
            raise Wrong('thread %s: ranges in pieces without need' % (key,))
        where = 'slices of thread %s' % (key,)
        if cut:
            compare(where, [item.name for item in whole], [item.name for item in slices])
            calls = {record.key() for record in slices if record.form == 'call'}
            missing = calls - {item.key() for item in whole}
            if missing:
                raise Wrong('%s: call missing %s' % (where, list(missing)[0]))
        else:
            compare(where, [(item.key(), item.depth, parent_key(item), item.category)
                            for item in whole],
                    [(item.key(), item.depth, parent_key(item), item.category)
                     for item in slices])
        compare('instants of thread %s' % (key,),
                [(item.name, item.begin, item.category) for item in points],
                [(item.name, item.begin, item.category) for item in instants])
        got, wanted = whole + points, slices + instants
        self.arguments(key, got, wanted, cut)
        self.stacks(key, got, wanted, cut)

    @staticmethod
    def arguments(key, got, wanted, cut):
        extra = {'continued', 'open_at_end', 'place'}
        for item in got:
            # The line to blame, of calls that have no track of their own: one of its stack's.
            place = item.args.get('place')
            if place is None:
                continue
            known = ['%s:%s in %s' % (file, line, function) for function, file, line in item.frames or () if file and line]
            if item.category != 'ofi_mr' and item.args.get('cls') != 'stages' or \
                    re.match(r'.+:\d+ in ', place) and place not in known or bool(item.frames) == (place == '(no stack)'):
                raise Wrong('%s at %d is blamed on %s, its stack is %s' % (item.name, item.begin, place, known))
        keep = 1 if cut else 3
        compare('arguments of thread %s' % (key,),
                [(item.key()[:keep], tuple(sorted((name, value) for name, value in item.args.items()
                                           if name not in extra))) for item in got],
                [(item.key()[:keep], tuple(sorted(item.args.items()))) for item in wanted])

    @staticmethod
    def stacks(key, got, wanted, cut):
        keep = 1 if cut else 3
        compare('call stacks of thread %s' % (key,),
                [(item.key()[:keep], tuple(item.frames or ())) for item in got],
                [(item.key()[:keep], tuple(tuple(frame) for frame in item.frames))
                 for item in wanted])

    def tracks_named(self, pid, test):
        """Tracks below a process whose name passes."""
        process, found = self.trace.processes[pid], []
        for uuid, descriptor in self.trace.tracks.items():
            at = descriptor
            while at.parent_uuid:
                if at.parent_uuid == process and test(descriptor.name):
                    found.append(uuid)
                    break
                at = self.trace.tracks[at.parent_uuid]
        return found

    def flat(self, pid, test, used, what):
        """All slices of such tracks, which must not nest."""
        found = []
        for uuid in self.tracks_named(pid, test):
            used.add(uuid)
            for item in self.replay.slices[uuid]:
                if item.depth:
                    raise Wrong('%s overlap on track %#x' % (what, uuid))
                found.append(item)
        return found

    def process(self, pid, records, used):
        waits = self.flat(pid, lambda name: name == 'Synchronizations', used, 'synchronizations')
        compare('synchronizations of process %d' % pid, [item.key() for item in waits],
                [record.key() for record in records if record.cls == WAITS])
        runs = self.flat(pid, lambda name: name == 'Polls', used, 'runs of polls')
        compare('runs of polls of process %d' % pid, [item.key() for item in runs],
                [record.key() for record in records if record.run])
        self.transfers_of(pid, records,
                          self.flat(pid, lambda name: name.startswith('Endpoint '), used,
                                    'transfers'))
        lives = self.flat(pid, lambda name: name == 'Memory registrations', used, 'registrations')
        compare('registrations of process %d' % pid, [(item.name, item.begin) for item in lives],
                [(record.name, record.begin) for record in records
                 if record.type == 'ofi_mr_reg' and record.status >= 0])
        ranges = self.flat(pid, lambda name: name.startswith('Ranges'), used, 'ranges')
        compare('ranges across threads of process %d' % pid,
                [(item.name, item.begin) for item in ranges],
                [(record.name, record.begin) for record in records if record.type == 'nvtx_start'])
        self.counters_of(pid)

    def transfers_of(self, pid, records, transfers):
        posts = [record for record in records if record.type == 'ofi_post' and record.status >= 0]
        if len({id(item) for item in transfers}) < len(posts):
            raise Wrong('process %d: %d posts but %d transfers' % (pid, len(posts),
                                                                   len(transfers)))
        for item in transfers:
            ends = [end for flow in item.flows for end in self.replay.flow_ends[flow]
                    if end is not item]
            post = [end for end in ends if not end.instant and end.category == 'ofi_xfer' and
                    end.track in self.trace.threads.values()]
            if len(post) != 1 or post[0].key()[:2] != item.key()[:2]:
                raise Wrong('transfer %s has no arrow from its post' % (item.key(),))
            completion = [end for end in ends if end.instant]
            finished = item.args['matched'].startswith('completion')
            if finished != (len(completion) == 1):
                raise Wrong('transfer %s: arrows to %d completions' % (item.key(),
                                                                       len(completion)))
            if finished and (completion[0].begin != item.end or
                             completion[0].args['context'] != post[0].args['context']):
                raise Wrong('transfer %s ends at another completion' % (item.key(),))
            self.transfers += 1

    def messages_arrive(self):
        """A receive with a known number ends after its send began, with as many bytes."""
        for slices in self.replay.slices.values():
            for item in slices:
                for flow in item.arrivals:
                    sends = [end for end in self.replay.flow_ends[flow] if end is not item]
                    if len(sends) > 1:
                        raise Wrong('message %#x has %d ends' % (flow, len(sends) + 1))
                    for send in sends:
                        self.messages += 1
                        if send.begin > item.end:
                            raise Wrong('%s at %d arrived before it was sent' % (item.name, item.end))
                        if send.args['bytes'] != item.args['bytes']:
                            raise Wrong('%d bytes were sent, %d received' % (send.args['bytes'],
                                                                             item.args['bytes']))

    def counters_of(self, pid):
        for uuid in self.tracks_named(pid, lambda name: True):
            if uuid not in self.trace.counters_described:
                continue
            for ts, value in self.replay.counters[uuid]:
                if value < 0:
                    raise Wrong('counter %s is %d at %d' % (self.trace.tracks[uuid].name, value,
                                                            ts))


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__)
        return 64
    schema = load_schema()
    try:
        check_field_table(schema)
        trace = Trace(schema, sys.argv[1])
        replay = Replay(trace)
        against = None
        if len(sys.argv) == 3:
            against = Against(trace, replay, sys.argv[2])
            against.run()
    except Wrong as error:
        print('check_trace: %s: %s' % (sys.argv[1], error))
        return 1
    slices, instants, counters = replay.totals()
    print('check_trace: %d packets, %d tracks, %d slices, %d instants, %d counter values, %d flows, '
          '%d on devices (%d arrows)%s'
          % (trace.count, len(trace.tracks), slices, instants, counters,
             sum(len(ends) > 1 for ends in replay.flow_ends.values()), len(replay.gpu),
             replay.launches(),
             '; equal to %d records, %d transfers, %d messages, %d pieces' %
             (against.records, against.transfers, against.messages, against.pieces) if against else ''))
    return 0


if __name__ == '__main__':
    sys.exit(main())
