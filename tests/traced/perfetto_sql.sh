#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The SQL package in viewers/perfetto gives the report's numbers from exported traces alone, in
# trace_processor_shell (in PATH, or named by WAYLAY_TEST_TRACE_PROCESSOR).
set -eu
# The tree for the UI is made from the package, and is as it would be made now.
python3 "$WAYLAY_SOURCE/scripts/perfetto_server.py" server
diff -r server "$WAYLAY_SOURCE/viewers/perfetto/server" || {
	echo "viewers/perfetto/server is old: run scripts/perfetto_server.py"
	exit 1
}
processor=${WAYLAY_TEST_TRACE_PROCESSOR:-${TRACE_PROCESSOR:-$(command -v trace_processor_shell || command -v trace_processor || true)}}
if [ ! -x "$processor" ]; then
	echo "no trace_processor_shell here (WAYLAY_TEST_TRACE_PROCESSOR names one)"
	exit 77
fi
build=$WAYLAY_BUILD/tests
[ -e "$build/fakecuda/libcuda.so.1" ] || { echo "no simulated CUDA driver in this build" && exit 77; }
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
[ -z "$runtime" ] || { echo "built with a sanitizer, whose programs are slow" && exit 77; }
PATH=$WAYLAY_BUILD:$PATH
LD_LIBRARY_PATH="$build/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH LD_LIBRARY_PATH

cat >demo.sh <<'EOF2'
waylay-sampler-perf --backend cuda --variant naive --n 2000 --calls 11 --warmup 0
[ ! -x "$1/waylay-coll-perf" ] || waylay-coll-perf --np 2 --mr-cache off --minbytes 64K --maxbytes 256K --stepfactor 4 --iters 5 all_reduce
EOF2
waylay run -q --no-export --dir demo -- sh demo.sh "$WAYLAY_BUILD" >demo.log 2>&1 || { cat demo.log && exit 1; }
WAYLAY_DIR=$PWD/rules LD_PRELOAD=$preload "$build/cuda_calls" >rules.log
if [ -x "$build/ground_truth" ]; then
	for provider in shm 'tcp;ofi_rxm'; do
		WAYLAY_DIR=$PWD/truth LD_PRELOAD=$preload "$build/ground_truth" "$provider" 7 >truth.log && break
		rm -rf truth
	done
fi
# Names with what a query could stumble over (but the marks that the shell's own CSV does not double).
"$build/make_recording" named 997 2 "a'b%;--\\ </script> * [d]"
for recording in demo rules truth named; do
	[ -d "$recording" ] || continue
	waylay export -o "$recording.pftrace" "$recording" 2>export.log || { cat export.log && exit 1; }
	waylay report --json "$recording" >"$recording.json"
	python3 "$WAYLAY_SOURCE/tests/perfetto/check_sql.py" "$processor" "$WAYLAY_SOURCE/viewers/perfetto/waylay" \
		"$recording.pftrace" "$recording.json"
done
# The examples of the page run, the macros' queries too, and the metrics say what the report says.
python3 - "$processor" "$WAYLAY_SOURCE" <<'EOF2'
import json, re, subprocess, sys
processor, source = sys.argv[1:]
package = source + "/viewers/perfetto/waylay"


def ask(query):
    done = subprocess.run([processor, "query", "--add-sql-package", package, "demo.pftrace", query], capture_output=True, text=True)
    assert done.returncode == 0, (query, done.stderr[-2000:])
    return done.stdout.splitlines()[1:]


examples = re.findall(r"```sql\n(.*?)```", open(source + "/docs/perfetto-sql.md").read(), re.S)
assert len(examples) >= 4
assert sum(bool(ask(example)) for example in examples) >= len(examples) - 1
for macro in json.load(open(source + "/viewers/perfetto/server/modules/default/macros"))["macros"]:
    assert macro["id"].startswith("waylay.") and macro["run"][0]["id"] == "dev.perfetto.RunQuery", macro
    queries = [one["args"][0] for one in macro["run"] if "Query" in one["id"] or "Slice" in one["id"]]
    ask(" ".join([queries[0]] + [query + ";" for query in queries[1:-1]]) + queries[-1])
done = subprocess.run([processor, "summarize", "--add-sql-package", package, "--metrics-v2", "all", "--format", "text",
                       "demo.pftrace", source + "/viewers/perfetto/summary.textproto"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr[-2000:]
values = dict(re.findall(r'bundle_id: "(waylay_\w+)".*?double_value: ([\d.]+)', done.stdout, re.S))
report = json.load(open("demo.json"))
assert float(values["waylay_synchronizations"]) == report["totals"]["synchronizations"], values
assert float(values["waylay_registrations"]) == report["registrations"]["count"], values
print(f"{len(examples)} examples, the macros and the metrics run")
EOF2
