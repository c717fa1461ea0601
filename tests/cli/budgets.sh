#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Budgets in a file of a sample project: a clean and a regressed commit, through every form of the verdict
# (against their schemas where they are given), through the pytest plugin and the steps of the GitHub
# workflow in docs/ci.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
if ! command -v git >/dev/null || ! command -v python3 >/dev/null; then
	echo "needs git and python3 for the sample project"
	exit 77
fi

# --- mistakes in the file: one line that says where
bad() { # WORDS LINES
	printf '%b' "$2" >bad.budgets
	one_line 2 "$1" waylay check --budgets bad.budgets nowhere
}
bad "bad.budgets, line 2: there is no budget 'max-synks'" '[run]\nmax-synks = 1\n'
bad "line 1: 'max-syncs' stands before any section" 'max-syncs = 1\n'
bad "line 1: there is no section '[stepps]'" '[stepps]\n'
bad "line 1: a section is [run]" '[run\n'
bad "line 2: 'max-syncs' is not NAME = VALUE" '[run]\nmax-syncs\n'
bad "line 2: 'many' is no whole number" '[run]\nmax-syncs = many\n'
bad "line 2: '5 parsecs' is no time" '[run]\nmax-held = 5 parsecs\n'
bad "line 2: '5mb' is no size" '[run]\nmax-staged-bytes = 5mb\n'
bad "line 2: there is no rule" '[run]\nmax-rule no_such_rule = 5\n'
bad "line 2: the whole run is always the sum" '[run]\ntotal = yes\nmax-syncs = 0\n'
bad "line 2: 'perhaps' is neither yes nor no" '[steps]\ntotal = perhaps\nmax-syncs = 0\n'
bad "line 2: say why 'x.py:*' is allowed" '[allow]\nx.py:* = \n'
bad "there is none; give one" '# nothing\n\n[steps]\n'
bad "it is no text" '[run]\0max-syncs = 1\n'
one_line 2 "nowhere.budgets: No such file or directory" waylay check --budgets nowhere.budgets nowhere
one_line 64 "--steps goes without --range" waylay check --steps --range x --max-syncs 0

# --- a project in a repository: three waits a step are none too many, and one that is allowed
mkdir -p project/src && cd project || exit 1
git init -q . && git config user.name t && git config user.email t@example.com
cat >src/train.py <<'EOF2'
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context, stream, kernel, module = (ctypes.c_void_p() for _ in range(4))
memory, host = ctypes.c_uint64(), ctypes.create_string_buffer(4096)
WAITS = 1


def check(status):
    assert status == 0, status


def launch(name):
    check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, name))
    value = (ctypes.c_uint32(5), ctypes.c_uint32(7))
    arguments = (ctypes.c_void_p * 3)(ctypes.addressof(memory), ctypes.addressof(value[0]), ctypes.addressof(value[1]))
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))


def step():
    for name in b"fake_fill_u32", b"fake_scale_u32", b"fake_scale_u32":
        launch(name)
    for _ in range(WAITS):
        check(cuda.cuStreamSynchronize(stream))  # the loss


def log():
    check(cuda.cuMemcpyHtoDAsync_v2(memory, host, 1024, stream))


def main():
    check(cuda.cuInit(0))
    check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), 4096))
    check(cuda.cuModuleLoadData(ctypes.byref(module), b"WAYLAY-KERNELS\nfake_fill_u32\nfake_scale_u32\n"))
    for i in range(13):
        step()
        if i % 5 == 4:
            log()


def test_train():
    main()


if __name__ == "__main__":
    main()
EOF2
cat >waylay.budgets <<'EOF2'
# what a step may do
skip = 1

[steps]
max-syncs = 1
max-rule stream_wait = 1
max-pageable = 0

[run]
max-staged-bytes = 1KiB

[allow]
train.py:* in log = every fifth step is written to the log
nowhere.py:* = was there once
EOF2
git add -A && git commit -qm clean
sed -i 's/^WAITS = 1/WAITS = 2/' src/train.py && git commit -qam regressed

step_of() { # NAME: the command of a step of the workflow
	awk -v name="$1" '$0 ~ "name: " name "$" { found = 1 } found && sub(/^ *run: /, "") { print; exit }' \
		"$WAYLAY_SOURCE/docs/ci/github-actions.yml"
}
clean=$(git rev-parse HEAD~1) regressed=$(git rev-parse HEAD)
for commit in "$clean:0" "$regressed:1"; do
	verdict=${commit#*:}
	git checkout -q "${commit%:*}" 2>err || fail "checkout"
	rm -rf waylay-out
	expect 0 sh -c "$(step_of 'Trace a short run')"
	expect "$verdict" sh -c "$(step_of 'Hold it to the budgets')"
	says out "check: allowed: 2 calls in the whole run at train.py:* in log: every fifth step is written"
	says out "check: allowed, but not seen: nowhere.py:*"
	says out "check: holds: 0 B in staged copies in the whole run, allowed 1.00 KiB"
	if [ "$verdict" = 1 ]; then
		says out "check: EXCEEDED: 2 synchronizations in the worst instance of '(step)', allowed 1"
		says out "::error file=src/train.py,line=24,"
	else
		says out "check: holds: 1 synchronizations in the worst instance of '(step)', allowed 1"
	fi
	expect 0 sh -c "$(step_of 'Write the report')"
	[ -s waylay.html ] || fail "no report"
	expect "$verdict" waylay check --budgets waylay.budgets --json waylay.json
	python3 - "$verdict" <<'EOF2' || fail "verdict of $commit"
import json, sys
import xml.etree.ElementTree as xml
status = int(sys.argv[1])
verdict = json.load(open("waylay.json"))
assert verdict["status"] == status
assert [(b["range"], b["unit"], b["total"], b["holds"]) for b in verdict["budgets"]] == [
    ("(step)", "calls", False, not status), ("(step)", "calls", False, not status), ("(step)", "calls", False, True),
    (None, "bytes", True, True)], verdict["budgets"]
assert [(a["place"], a["count"]) for a in verdict["allowed"]] == [("train.py:* in log", 2), ("nowhere.py:*", 0)]
assert len(xml.parse("waylay.xml").getroot().findall(".//failure")) == 2 * status
results = json.load(open("waylay.sarif"))["runs"][0]["results"]
assert len(results) == 2 * status
for result in results:
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/train.py"
EOF2
	as_schemas_say waylay.xml waylay.sarif
done
# Steps that are named and do not come, a recording that is not whole: no silent pass.
head -c 5000 /dev/urandom >waylay-out/random.wspool
git checkout -q "$clean"
printf '[range nowhere]\nmax-syncs = 9\n' >other.budgets
expect 2 waylay check --budgets other.budgets waylay-out
says out "CANNOT TELL"
rm waylay-out/random.wspool
expect 2 waylay run -q --no-export --dir again --budgets other.budgets -- python3 src/train.py
says err "there is no range 'nowhere'"
expect 0 waylay run -q --no-export --dir again --budgets waylay.budgets -- python3 src/train.py
expect 1 waylay run -q --no-export --dir again --budgets waylay.budgets --max-syncs 3 -- python3 src/train.py
# No launches, so no steps.
expect 2 waylay run -q --no-export --dir none --steps --max-syncs 3 -- \
	python3 -c 'import ctypes; assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0'
says err "no steps were found"

# --- the pytest plugin
python=$(command -v python3)
"$python" -c 'import pytest' 2>/dev/null || python=/usr/bin/python3
"$python" -c 'import pytest' 2>/dev/null || {
	echo "all but the pytest plugin passed, which needs python3-pytest"
	exit 0
}
cp "$WAYLAY_SOURCE/docs/ci/waylay_pytest.py" .
echo 'pytest_plugins = ["waylay_pytest"]' >conftest.py
for waits in 1 2; do
	sed -i "s/^WAITS = .*/WAITS = $waits/" src/train.py
	cat >test_train.py <<'EOF2'
import sys
import pytest
sys.path.insert(0, "src")


@pytest.mark.waylay("--budgets=waylay.budgets")
def test_train():
    import train
    train.main()


def test_other():
    pass
EOF2
	expect 0 "$python" -m pytest -q -p no:cacheprovider test_train.py
	says out "2 passed"
	expect $((waits - 1)) "$python" -m pytest -q -p no:cacheprovider --waylay test_train.py
	if [ $waits = 1 ]; then
		says out "3 passed"
	else
		says out "1 failed, 2 passed"
		says out "EXCEEDED: 2 synchronizations in the worst instance of '(step)'"
		says out "train.py:24 in step"
	fi
done
