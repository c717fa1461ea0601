# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts beside it, which need a real NVIDIA GPU and skip by name without one.
# shellcheck shell=sh
set -eu

[ -e /dev/nvidiactl ] || [ -e /dev/nvidia0 ] || {
	echo "needs an NVIDIA GPU"
	exit 77
}
need_python() { # MODULE ...
	for module in "$@"; do
		python3 -c "import $module" 2>/dev/null || {
			echo "needs Python's $module"
			exit 77
		}
	done
}
# A fresh recording of a command; its own output goes to plain.log.
record() { # NAME COMMAND...
	name=$1
	shift
	"$WAYLAY_BUILD/waylay" run --dir "$PWD/$name" --output "$name.pftrace" -- "$@" >plain.log 2>run.log || {
		status=$?
		cat plain.log run.log
		return $status
	}
}
