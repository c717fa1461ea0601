#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Storms: processes whose threads come and go, fork, and end while others are in the middle of calls. Nobody hangs
# or complains, and every wait that had returned is in the recording. WAYLAY_TEST_STORMS: how many.
set -eu
build=$WAYLAY_BUILD/tests
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
unset WAYLAY_BUILD
[ -e "$build/fakecuda/libcuda.so.1" ] || { echo "no simulated CUDA driver in this build" && exit 77; }
export LD_LIBRARY_PATH="$build/fakecuda:$build/fakecupti${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# A process that ends amid its threads leaves them, and is to.
export TSAN_OPTIONS="report_thread_leaks=0:${TSAN_OPTIONS:-}"
export WAYLAY_CUPTI="$build/fakecupti/libcupti.so.13" # for those that ask for device activity
"$build/storms" "$preload" "$build/storm_job" "${WAYLAY_TEST_STORM:-1}" "${WAYLAY_TEST_STORMS:-31}"
