#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A trace that torch.profiler wrote, laid beside the recording of the same run: all its rows are there, and where
# protobuf and protoc are, each kernel has its arrow from a launch that began before it.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch

record with python3 "$WAYLAY_SOURCE/tests/gpu/torch_with.py" 17
rows=$(tail -n 1 plain.log)
[ "$rows" -gt 100 ]
for file in kineto.json kineto.json.gz; do
	"$WAYLAY_BUILD/waylay" export with --with "$file" -o trace.pftrace 2>export.log
	cat export.log
	grep -q "$rows rows of torch.profiler's" export.log
done
if python3 -c 'import google.protobuf' 2>/dev/null && command -v protoc >/dev/null; then
	python3 "$WAYLAY_SOURCE/tests/perfetto/check_with.py" trace.pftrace kineto.json
fi
