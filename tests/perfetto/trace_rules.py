# SPDX-License-Identifier: Apache-2.0
"""The rules of Perfetto's trace format, applied packet by packet (see check_trace.py)."""
import os
import re
import subprocess
import sys
import tempfile
import zlib
from collections import defaultdict

HERE = os.path.dirname(os.path.abspath(__file__))
REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED, NEEDED = 1, 2


def load_schema():
    """The classes that protoc makes of the schema."""
    try:
        import google.protobuf  # noqa: F401
        with tempfile.TemporaryDirectory() as out:
            subprocess.run(['protoc', '-I', HERE, '--python_out', out,
                            os.path.join(HERE, 'waylay_trace.proto')], check=True)
            sys.path.insert(0, out)
            import waylay_trace_pb2
            return waylay_trace_pb2
    except (ImportError, FileNotFoundError) as error:
        print('check_trace: skipped: needs protoc and the python3 protobuf module (%s)' % error)
        sys.exit(77)


class Wrong(Exception):
    pass


def check_field_table(schema):
    """The exporter's table of fields and the schema give the same names the same numbers."""
    path = os.path.join(HERE, '..', '..', 'exporters', 'perfetto', 'fields.def')
    messages = schema.DESCRIPTOR.message_types_by_name
    with open(path, encoding='utf-8') as file:
        rows = re.findall(r'^PB_(\w+)\((\w+), (\w+), (\d+)(?:, (\w+))?\)', file.read(), re.M)
    if len(rows) < 50:
        raise Wrong('the table of fields cannot be read')
    for _, message, name, number, nested in rows:
        field = messages[message].fields_by_name.get(name)
        if field is None or field.number != int(number):
            raise Wrong('%s.%s is not field %s of the schema' % (message, name, number))
        if nested and field.message_type.name != nested:
            raise Wrong('%s.%s is no %s' % (message, name, nested))


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data):
            raise Wrong('a number is cut off at byte %d' % at)
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Wrong('a number of more than ten bytes at byte %d' % at)


class Wire:
    """Every field on the wire is one of the schema's, with the wire type that its type has unpacked."""

    def __init__(self, schema):
        self.tables = {}
        for descriptor in schema.DESCRIPTOR.message_types_by_name.values():
            table = {}
            for field in descriptor.fields:
                if field.type in (field.TYPE_FIXED64, field.TYPE_DOUBLE):
                    wire = 1
                elif field.type in (field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE):
                    wire = 2
                else:
                    wire = 0
                nested = field.message_type.name if field.type == field.TYPE_MESSAGE else None
                table[field.number] = (wire, nested, field.name)
            self.tables[descriptor.name] = table

    def check(self, name, data):
        table, at = self.tables[name], 0
        while at < len(data):
            key, at = varint(data, at)
            entry = table.get(key >> 3)
            if entry is None:
                raise Wrong('%s has an unknown field %d' % (name, key >> 3))
            wire, nested, field = entry
            if key & 7 != wire:
                raise Wrong('%s.%s has wire type %d, not %d' % (name, field, key & 7, wire))
            if wire == 0:
                _, at = varint(data, at)
            elif wire == 1:
                at += 8
            else:
                length, at = varint(data, at)
                if nested:
                    self.check(nested, data[at:at + length])
                at += length
            if at > len(data):
                raise Wrong('%s.%s reaches past the end' % (name, field))


def packets_of(data, where):
    """The byte strings of the packets of a file or of a run of compressed packets."""
    at = 0
    while at < len(data):
        if data[at] != 0x0a:
            raise Wrong('%s: byte %d is not the begin of a packet' % (where, at))
        length, begin = varint(data, at + 1)
        if begin + length > len(data):
            raise Wrong('%s: the packet at byte %d is cut off' % (where, at))
        yield data[begin:begin + length]
        at = begin + length


class Activity:
    __slots__ = ('name', 'begin', 'end', 'stage', 'queue', 'pid', 'gpu', 'event', 'args')


def unzstd(data):
    """Python's own library has no zstd: the system's does it."""
    import ctypes
    import ctypes.util
    library = ctypes.CDLL(ctypes.util.find_library('zstd'))
    library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    library.ZSTD_decompress.restype = ctypes.c_size_t
    size = library.ZSTD_getFrameContentSize(data, ctypes.c_size_t(len(data)))
    if size > 1 << 24:
        raise Wrong('a batch of compressed packets of %d bytes' % size)
    out = ctypes.create_string_buffer(size)
    if library.ZSTD_decompress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data))) != size:
        raise Wrong('compressed packets that cannot be read')
    return out.raw


class Sequence:
    SPACES = ('event_categories', 'event_names', 'debug_annotation_names', 'function_names', 'frames',
              'callstacks', 'build_ids', 'mapping_paths', 'source_paths', 'mappings',
              'debug_annotation_string_values', 'graphics_contexts', 'gpu_specifications')

    def __init__(self):
        self.cleared = False
        self.clock = None       # default clock id
        self.track = None       # default track
        self.clocks = {}        # scoped clock id -> [last value, multiplier]
        self.interned = {space: {} for space in self.SPACES}


class Trace:
    """The trace as Perfetto would see it, rule by rule."""

    def __init__(self, schema, path):
        self.schema = schema
        self.sequences = defaultdict(Sequence)
        self.primary = None
        self.global_clocks = set()
        self.tracks = {}        # uuid -> descriptor
        self.processes = {}     # pid -> uuid
        self.threads = {}       # (pid, tid) -> uuid
        self.tids = {}
        self.events = []        # (ts, order, track, event, sequence)
        self.gpu = []           # Activity
        self.gpu_numbers = {}   # iid of a queue or context -> what it stands for, in the whole trace
        self.counters_described = set()
        self.attributes = {}
        self.count = 0
        with open(path, 'rb') as file:
            self.data = file.read()
        if not self.data:
            raise Wrong('the file is empty')
        self.wire = Wire(schema)
        self.read(self.data, 'file')
        self.check_tracks()

    def read(self, data, where):
        for raw in packets_of(data, where):
            packet = self.schema.TracePacket.FromString(raw)
            if packet.WhichOneof('data') == 'compressed_packets':
                self.read(zlib.decompress(packet.compressed_packets), 'compressed packets')
                continue
            if packet.WhichOneof('data') == 'zstd_compressed_packets':
                self.read(unzstd(packet.zstd_compressed_packets), 'compressed packets')
                continue
            self.wire.check('TracePacket', raw)
            try:
                self.packet(packet)
            except Wrong as error:
                raise Wrong('packet %d: %s' % (self.count, error)) from None
            self.count += 1

    def packet(self, packet):
        kind = packet.WhichOneof('data')
        sequence = None
        if self.count == 0:
            self.first(packet)
        if packet.trusted_packet_sequence_id:
            sequence = self.sequences[packet.trusted_packet_sequence_id]
        elif packet.HasField('trusted_packet_sequence_id'):
            raise Wrong('sequence id 0')
        for field in ('interned_data', 'trace_packet_defaults', 'sequence_flags'):
            if packet.HasField(field) and sequence is None:
                raise Wrong('%s without a sequence id' % field)
        if packet.sequence_flags & CLEARED:
            new = Sequence()
            new.cleared = True
            sequence.__dict__.update(new.__dict__)
        if packet.sequence_flags & NEEDED and not sequence.cleared:
            raise Wrong('needs incremental state that was never set up')
        if packet.HasField('trace_packet_defaults'):
            self.defaults(sequence, packet.trace_packet_defaults)
        if packet.HasField('interned_data'):
            self.intern(sequence, packet.interned_data)
        if kind == 'clock_snapshot':
            self.snapshot(packet, sequence)
        elif kind == 'track_descriptor':
            self.descriptor(packet.track_descriptor)
        elif kind == 'trace_attributes':
            for attribute in packet.trace_attributes.attribute:
                if not attribute.key or not attribute.WhichOneof('value'):
                    raise Wrong('an attribute without key or value')
                if attribute.key in self.attributes:
                    raise Wrong('attribute %s twice' % attribute.key)
                self.attributes[attribute.key] = getattr(attribute, attribute.WhichOneof('value'))
        elif kind == 'track_event':
            self.event(packet, sequence)
        elif kind == 'gpu_render_stage_event':
            self.activity(packet, sequence)

    @staticmethod
    def first(packet):
        if packet.WhichOneof('data') != 'clock_snapshot':
            raise Wrong('the first packet is not a clock snapshot')
        ids = {clock.clock_id for clock in packet.clock_snapshot.clocks}
        if not {REALTIME, MONOTONIC, BOOTTIME} <= ids:
            raise Wrong('the first snapshot lacks REALTIME, MONOTONIC or BOOTTIME')
        if packet.clock_snapshot.primary_trace_clock != BOOTTIME:
            raise Wrong('the primary clock is not BOOTTIME')

    @staticmethod
    def defaults(sequence, defaults):
        if not sequence.cleared:
            raise Wrong('defaults before the state was cleared')
        if defaults.HasField('timestamp_clock_id'):
            sequence.clock = defaults.timestamp_clock_id
        if defaults.track_event_defaults.HasField('track_uuid'):
            sequence.track = defaults.track_event_defaults.track_uuid

    def snapshot(self, packet, sequence):
        seen = set()
        snapshot = packet.clock_snapshot
        if self.primary is None:
            self.primary = snapshot.primary_trace_clock
        if snapshot.primary_trace_clock != self.primary:
            raise Wrong('a snapshot without the same primary clock')
        for clock in snapshot.clocks:
            if clock.clock_id in seen:
                raise Wrong('clock %d twice in a snapshot' % clock.clock_id)
            seen.add(clock.clock_id)
            if clock.timestamp >> 63:
                raise Wrong('clock %d is negative' % clock.clock_id)
            if 64 <= clock.clock_id < 128:
                if sequence is None:
                    raise Wrong('a sequence clock without a sequence')
                if not clock.is_incremental:
                    raise Wrong('clock %d is not incremental' % clock.clock_id)
                sequence.clocks[clock.clock_id] = [clock.timestamp, clock.unit_multiplier_ns or 1]
            elif clock.is_incremental:
                raise Wrong('clock %d cannot be incremental' % clock.clock_id)
            else:
                self.global_clocks.add(clock.clock_id)
        if BOOTTIME not in seen:
            raise Wrong('a snapshot without BOOTTIME: its clocks relate to nothing')

    def intern(self, sequence, data):
        if not sequence.cleared:
            raise Wrong('interned data before the state was cleared')
        for space in Sequence.SPACES:
            known = sequence.interned[space]
            for entry in getattr(data, space):
                if not entry.iid:
                    raise Wrong('iid 0 in %s' % space)
                if entry.iid in known:
                    raise Wrong('iid %d of %s defined twice' % (entry.iid, space))
                known[entry.iid] = entry
        used = sequence.interned
        for frame in data.frames:
            self.need(used, 'function_names', frame.function_name_id)
            if frame.source_path_iid:
                self.need(used, 'source_paths', frame.source_path_iid)
            if frame.mapping_id:
                self.need(used, 'mappings', frame.mapping_id)
                if not frame.HasField('rel_pc'):
                    raise Wrong('a frame with a mapping but no address')
        for mapping in data.mappings:
            for path in mapping.path_string_ids:
                self.need(used, 'mapping_paths', path)
            if mapping.build_id:
                self.need(used, 'build_ids', mapping.build_id)
        for stack in data.callstacks:
            if not stack.frame_ids:
                raise Wrong('an empty call stack')
            for frame in stack.frame_ids:
                self.need(used, 'frames', frame)
        for space in ('event_names', 'event_categories', 'debug_annotation_names', 'function_names'):
            for entry in getattr(data, space):
                if not entry.str:
                    raise Wrong('an empty text in %s' % space)

    @staticmethod
    def need(interned, space, iid):
        if iid not in interned[space]:
            raise Wrong('iid %d of %s is not defined' % (iid, space))
        return interned[space][iid]

    def time(self, packet, sequence):
        clock = packet.timestamp_clock_id or sequence.clock or self.primary
        if not packet.HasField('timestamp'):
            raise Wrong('an event without a timestamp')
        if 64 <= clock < 128:
            if clock not in sequence.clocks:
                raise Wrong('clock %d is in no snapshot of the sequence' % clock)
            state = sequence.clocks[clock]
            state[0] += packet.timestamp * state[1]
            ts = state[0]
        else:
            if clock not in self.global_clocks:
                raise Wrong('clock %d is in no snapshot' % clock)
            if clock != self.primary:
                raise Wrong('clock %d is not the primary one' % clock)
            ts = packet.timestamp
        if ts >> 63:
            raise Wrong('a negative time')
        return ts

    def activity(self, packet, sequence):
        """Perfetto knows queues and contexts by their iids over all sequences."""
        event = packet.gpu_render_stage_event
        if sequence is None or not sequence.cleared:
            raise Wrong('device work before the state was cleared')
        made = Activity()
        made.begin = self.time(packet, sequence)
        if not event.event_id or not event.HasField('duration') or event.duration >> 63:
            raise Wrong('device work without event id or duration')
        used = sequence.interned
        context = self.need(used, 'graphics_contexts', event.context)
        queue = self.need(used, 'gpu_specifications', event.hw_queue_iid)
        made.end = made.begin + event.duration
        made.name = self.need(used, 'event_names', event.name_iid).str.decode()
        made.stage = self.need(used, 'gpu_specifications', event.stage_iid).name
        made.queue, made.pid, made.gpu, made.event = queue.name, context.pid, event.gpu_id, event.event_id
        made.args = {}
        for arg in event.launch.args:
            if not arg.WhichOneof('value') or arg.name in made.args:
                raise Wrong('device work with argument %r twice or without a value' % arg.name)
            made.args[arg.name] = getattr(arg, arg.WhichOneof('value'))
        for dim, value in (('grid', event.launch.grid_size), ('block', event.launch.workgroup_size)):
            if event.launch.HasField('grid_size'):
                made.args.update({dim + '_x': value.x, dim + '_y': value.y, dim + '_z': value.z})
        for kind, iid, stands in (('queue', event.hw_queue_iid, (context.pid, queue.name)),
                                  ('context', event.context, context.pid)):
            if self.gpu_numbers.setdefault((kind, iid), stands) != stands:
                raise Wrong('%s %d is %s and %s' % (kind, iid, stands, self.gpu_numbers[(kind, iid)]))
        self.gpu.append(made)

    def event(self, packet, sequence):
        event = packet.track_event
        if sequence is None:
            raise Wrong('a track event without a sequence id')
        if not sequence.cleared:
            raise Wrong('a track event before the state was cleared')
        ts = self.time(packet, sequence)
        track = event.track_uuid or sequence.track
        if not track:
            raise Wrong('a track event without a track')
        used = sequence.interned
        if event.type in (BEGIN, INSTANT):
            self.need(used, 'event_names', event.name_iid)
            if not event.category_iids:
                raise Wrong('an event without a category')
        elif event.type == END:
            if event.name_iid or event.category_iids:
                raise Wrong('an end with a name')
        elif event.type == COUNTER:
            if track not in self.counters_described:
                raise Wrong('a counter value before its descriptor')
            if not event.HasField('counter_value'):
                raise Wrong('a counter event without a value')
        else:
            raise Wrong('an event of type %d' % event.type)
        if event.type != COUNTER and event.HasField('counter_value'):
            raise Wrong('a value on an event that is no counter')
        for iid in event.category_iids:
            self.need(used, 'event_categories', iid)
        for annotation in event.debug_annotations:
            self.need(used, 'debug_annotation_names', annotation.name_iid)
            if not annotation.WhichOneof('value'):
                raise Wrong('an annotation without a value')
            if annotation.string_value_iid:
                self.need(used, 'debug_annotation_string_values', annotation.string_value_iid)
        if event.callstack_iid:
            if event.type == COUNTER:
                raise Wrong('a call stack on a counter')
            self.need(used, 'callstacks', event.callstack_iid)
        for flow in event.flow_ids:
            if not flow:
                raise Wrong('flow id 0')
        self.events.append((ts, len(self.events), track, event, used))

    def descriptor(self, descriptor):
        uuid = descriptor.uuid
        if not descriptor.HasField('uuid'):
            raise Wrong('a track without a uuid')
        if uuid == 0:
            if descriptor.HasField('process') or descriptor.HasField('thread') or descriptor.name:
                raise Wrong('track 0 is no track')
            return
        if uuid in self.tracks:
            raise Wrong('track %#x described twice' % uuid)
        if descriptor.HasField('process') and descriptor.HasField('thread'):
            raise Wrong('a track that is process and thread')
        if descriptor.HasField('process'):
            pid = descriptor.process.pid
            if pid <= 0:
                raise Wrong('pid %d' % pid)
            if pid in self.processes:
                raise Wrong('pid %d described twice' % pid)
            self.processes[pid] = uuid
        if descriptor.HasField('thread'):
            pid, tid = descriptor.thread.pid, descriptor.thread.tid
            if pid <= 0 or tid <= 0:
                raise Wrong('pid %d, tid %d' % (pid, tid))
            if tid in self.tids:
                raise Wrong('tid %d described twice' % tid)
            if pid not in self.processes:
                raise Wrong('a thread of a process that is not described')
            self.tids[tid] = uuid
            self.threads[(pid, tid)] = uuid
        if descriptor.HasField('counter'):
            self.counters_described.add(uuid)
        self.tracks[uuid] = descriptor

    def check_tracks(self):
        for uuid, descriptor in self.tracks.items():
            seen, at = {uuid}, descriptor
            while at.parent_uuid:
                if at.parent_uuid not in self.tracks:
                    raise Wrong('track %#x: parent %#x is not described' % (uuid, at.parent_uuid))
                if at.parent_uuid in seen:
                    raise Wrong('track %#x is its own ancestor' % uuid)
                seen.add(at.parent_uuid)
                if len(seen) > 100:
                    raise Wrong('track %#x has over 100 ancestors' % uuid)
                at = self.tracks[at.parent_uuid]
        for _, order, track, event, _ in self.events:
            if track not in self.tracks:
                raise Wrong('event %d is on track %#x, which is not described' % (order, track))
            if (event.type == COUNTER) != (track in self.counters_described):
                raise Wrong('event %d: counters and slices on one track' % order)
