#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# torch.profiler in a traced process sees all its GPU rows: the same as without Waylay.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch

python3 "$WAYLAY_SOURCE/tests/gpu/torch_profiler.py" >alone.log
record profiled python3 "$WAYLAY_SOURCE/tests/gpu/torch_profiler.py"
cat alone.log
[ "$(wc -l <alone.log)" -gt 3 ]
diff alone.log plain.log
"$WAYLAY_BUILD/waylay" report profiled
