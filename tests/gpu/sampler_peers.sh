#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The fused sampler beside PyTorch's forms of it, in one run: a table, which is all that is asked of it.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch triton

python3 "$WAYLAY_SOURCE/tests/gpu/sampler_peers.py" "$WAYLAY_BUILD/waylay-sampler-perf" "$@"
