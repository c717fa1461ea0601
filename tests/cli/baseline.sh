#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Baselines and machine-readable verdicts, on a small project of its own: a clean commit, a regressed one,
# one that got better.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
command -v python3 >/dev/null || {
	echo "no python3 to run the sample project"
	exit 77
}

# The sample project: a training step of 5 instances; WAITS waits in each, and one at the log line.
mkdir -p src
cat >src/train.py <<'EOF'
import ctypes, os, sys

cuda = ctypes.CDLL("libcuda.so.1")
push, pop = None, None
context, stream = ctypes.c_void_p(), ctypes.c_void_p()


def check(status):
    assert status == 0, status


def step(waits):
    for _ in range(waits):
        check(cuda.cuStreamSynchronize(stream))  # the loss


def log():
    check(cuda.cuCtxSynchronize())


check(cuda.cuInit(0))
check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
for i in range(5):
    step(int(sys.argv[1]))
    if i % 2 == 0:
        log()
EOF
train() { # DIR WAITS
	rm -rf "$1"
	expect 0 waylay run -q --no-export --dir "$1" -- python3 "$PWD/src/train.py" "$2"
}
train main 2
train same 2
train worse 3
train better 1

# --- a baseline is what was counted, and the same recording holds to it
expect 0 waylay check --save-baseline base.json main
says out "check: wrote the baseline base.json"
python3 - <<'EOF' || fail "the baseline's content"
import json
base = json.load(open("base.json"))
assert base["waylay_baseline"] == 1 and base["range"] is None, base
counts = {k: v for k, v in base["counts"].items() if k in ("stream_wait", "context_wait")}
assert counts == {"stream_wait": 10, "context_wait": 3}, base["counts"]
places = {(p["place"].rsplit("/", 1)[-1], p["rule"]): p["count"] for p in base["places"]}
assert places[("train.py:14 in step", "stream_wait")] == 10, places
assert places[("train.py:18 in log", "context_wait")] == 3, places
EOF
for dir in main same; do
	expect 0 waylay check --baseline base.json $dir
	says out "check: holds: by no rule more than in base.json"
done
expect 1 waylay check --baseline base.json worse
says out "check: WORSE: 15 calls by stream_wait in the whole run, 10 in the baseline"
says out "train.py:14 in step"
[ "$(grep -c WORSE out)" = 1 ] || fail "more than one rule got worse"
expect 0 waylay check --baseline base.json better
says out "check: better: 5 calls by stream_wait in the whole run, 10 in the baseline"

# --- the same two, place by place
expect 0 waylay diff main main
! grep -q 'that changed' out || fail "a recording differs from itself"
expect 0 waylay diff main worse
says out "train.py:14 in step"
! grep -q 'train.py:18' out || fail "a place that did not change"
expect 0 waylay diff --json main worse
python3 - <<'EOF' || fail "the comparison"
import json
diff = json.load(open("out"))
first = diff["places"][0]
assert first["rule"] == "stream_wait" and first["count"] == [10, 15], first
assert first["place_a"] == first["place_b"] and first["place_a"].endswith("train.py:14 in step"), first
assert diff["synchronizations"][1] - diff["synchronizations"][0] == 5, diff["synchronizations"]
assert diff["complete"] == [True, True]
EOF
# Lines that moved are still the same place; what is gone or new is told as such.
mkdir moved_src
sed -e 's/^def step/\n\ndef step/' -e 's/cuCtxSynchronize()/cuStreamSynchronize(stream)/' src/train.py >moved_src/train.py
cp src/train.py kept.py
cp moved_src/train.py src/train.py
train moved 2
cp kept.py src/train.py
expect 0 waylay diff --json main moved
python3 - <<'EOF' || fail "the comparison with moved lines"
import json
names = lambda place: place and place.rsplit("/", 1)[-1]
got = {(names(p["place_a"]), names(p["place_b"]), p["rule"]): p["count"] for p in json.load(open("out"))["places"]}
assert got[("train.py:14 in step", "train.py:16 in step", "stream_wait")] == [10, 10], got
assert got[("train.py:18 in log", None, "context_wait")] == [3, 0], got
assert got[(None, "train.py:20 in log", "stream_wait")] == [0, 3], got
EOF
expect 0 waylay diff main moved
says out "(was "

# --- tolerance, and times, of this same machine and so not told apart finely
expect 0 waylay check --baseline base.json --tolerance 50 worse
expect 1 waylay check --baseline base.json --tolerance 49 worse
expect 0 waylay check --baseline base.json --held 100000 same
sed 's/"held_ns": [0-9]*/"held_ns": 0/' base.json >nothing_held.json
expect 1 waylay check --baseline nothing_held.json --held 50 same
says out "held by synchronizations"
expect 0 waylay check --baseline nothing_held.json same
# A place that the baseline has not is said to be new.
sed 's/train.py:14/train.py:13/' base.json >moved.json
expect 1 waylay check --baseline moved.json worse
says out "(not in the baseline)"

# --- with a budget of one's own besides
expect 1 waylay check --baseline base.json --max-staged 0 --max-at 'train.py:18 *=2' same
says out "EXCEEDED: 3 synchronizations at train.py:18 *"
says out "holds: 0 staged copies"

# --- in one go, under `run`
expect 1 waylay run -q --no-export --baseline base.json -- python3 "$PWD/src/train.py" 3
says err WORSE
one_line 125 "reading the baseline nowhere.json: No such file" \
	waylay run --baseline nowhere.json -- touch started
[ ! -e started ] || fail "the job started without its baseline"

# --- baselines that cannot be used: no verdict, one line
bad() { # WORDS CONTENT
	printf '%s' "$2" >bad.json
	one_line 2 "$1" waylay check --baseline bad.json main
	says err "make a new one with --save-baseline"
}
one_line 2 "reading the baseline nowhere.json: No such file or directory; make one with --save-baseline" \
	waylay check --baseline nowhere.json main
bad "reading the baseline bad.json, line 1" 'no JSON'
bad "reading the baseline bad.json, line" ''
bad "it is no baseline" '{}'
bad "it is no baseline" '[]'
bad "of a newer version" '{"waylay_baseline": 2}'
bad "no object 'counts'" '{"waylay_baseline": 1, "range": null, "skip": 0}'
bad "is no whole number" '{"waylay_baseline": 1, "range": null, "skip": 0, "counts": {"stream_wait": -1}}'
bad "is no whole number" '{"waylay_baseline": 1, "range": null, "skip": 0, "counts": {"stream_wait": "many"}}'
bad "neither a name nor null" '{"waylay_baseline": 1, "range": 3, "skip": 0, "counts": {}}'
bad "'skip' is no whole number" '{"waylay_baseline": 1, "range": null, "skip": -3, "counts": {}}'
one_line 2 "counted in another way" waylay check --baseline base.json --range step main
one_line 64 "say how to compare with" waylay check --tolerance 3 --max-syncs 3 main
one_line 64 "is no whole percentage" waylay check --baseline base.json --tolerance 3.5 main
# None is made of what allows no verdict, and an old one stays.
cp base.json kept.json
expect 2 waylay check --range nowhere --save-baseline kept.json main
says err "no baseline was written to kept.json: the verdict is 'cannot tell'"
cmp -s base.json kept.json || fail "a baseline was overwritten without a verdict"
expect 2 waylay check --save-baseline nowhere/x.json main
says err "nowhere/x.json: No such file or directory"

# --- with a range: its scope is kept and used
# shellcheck disable=SC2046
{
	expect 0 waylay run -q --no-export --dir naive -- $(sampler naive 7)
	expect 0 waylay check --range sampler-naive --skip 2 --save-baseline range.json naive
	expect 0 waylay check --baseline range.json naive
	expect 0 waylay check --baseline range.json --range sampler-naive --skip 2 naive
	one_line 2 "counted in another way" waylay check --baseline range.json --range sampler-naive naive
	[ "$(python3 -c 'import json; print(json.load(open("range.json"))["counts"]["stream_wait"])')" = 2 ] ||
		fail "the worst instance in a baseline"
	# The range is gone: no silent pass.
	expect 2 waylay check --baseline range.json main
	says out "CANNOT TELL: there is no range 'sampler-naive'"
}

# --- every form of the verdict, for a clean and a regressed recording, one of which a part cannot be read, and
# one whose range lost records: what is left of it holds to its budget
cp -r main torn
head -c 5000 /dev/urandom >torn/random.wspool
# shellcheck disable=SC2046
expect 0 waylay run -q --no-export --dir lossy --max-bytes 1M -- $(sampler naive 20000)
[ "$(field lossy 'sum(r["processes"][0]["drops"].values()) > 0')" = True ] || fail "nothing was dropped"
for case in same:0 worse:1 torn:2 lossy:2; do
	dir=${case%:*} status=${case#*:} how="--baseline base.json --max-staged 5"
	[ "$dir" != lossy ] || how="--range sampler-naive --max-syncs 3 --max-staged 5"
	rm -f v.json v.xml v.sarif
	# shellcheck disable=SC2086
	expect "$status" waylay check $how --json v.json --junit v.xml --sarif v.sarif --github "$dir"
	as_schemas_say v.xml v.sarif
	python3 - "$status" "$dir" <<'EOF' || fail "a verdict of $dir"
import json, re, sys
import xml.etree.ElementTree as xml

status = int(sys.argv[1])
text = open("out").read()

verdict = json.load(open("v.json"))
assert verdict["schema"] == 1 and verdict["status"] == status
assert verdict["verdict"] == ["holds", "exceeded", "cannot tell"][status]
assert (verdict["doubt"] is None) == (status != 2)
failed = [one for one in verdict["budgets"] if not one["holds"]]
assert len(failed) == (status == 1), failed
if failed:
    assert failed[0]["have"] == 15 and failed[0]["allowed"] == 10 and failed[0]["baseline"] == 10
    assert failed[0]["places"][0]["line"] == 14 and failed[0]["places"][0]["count"] == 15

suites = xml.parse("v.xml").getroot()
assert suites.tag == "testsuites"
suite = suites.find("testsuite")
cases = suite.findall("testcase")
assert len(cases) == int(suite.get("tests")) == len(verdict["budgets"])
assert len(suite.findall("testcase/failure")) == int(suite.get("failures")) == (status == 1)
assert len(suite.findall("testcase/error")) == int(suite.get("errors")) == (len(cases) if status == 2 else 0)
assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))
if status == 1:
    assert "train.py:14" in suite.find("testcase/failure").text

sarif = json.load(open("v.sarif"))
assert sarif["version"] == "2.1.0" and len(sarif["runs"]) == 1
run = sarif["runs"][0]
known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
assert all(result["ruleId"] in known and result["message"]["text"] for result in run["results"])
assert run["invocations"][0]["executionSuccessful"] == (status != 2)
assert len(run["invocations"][0]["toolExecutionNotifications"]) == (status == 2)
assert bool(run["results"]) == (status == 1)
if status == 1:
    where = run["results"][0]["locations"][0]["physicalLocation"]
    assert where == {"artifactLocation": {"uri": "src/train.py"}, "region": {"startLine": 14}}, where

notes = re.findall(r"^::(error|warning) (.*?)::(.*)$", text, re.M)
assert len(notes) == (0 if status == 0 else 1), notes
if status == 1:
    assert notes[0][0] == "error" and notes[0][1] == "file=src/train.py,line=14,title=waylay check", notes
    assert "15 calls by stream_wait" in notes[0][2]
if status == 2:
    words = "could not be read" if sys.argv[2] == "torn" else "records were lost"
    for one in (notes[0][2], verdict["doubt"], text, suite.find("testcase/error").get("message"),
                run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]):
        assert words in one, (words, one)
EOF
done
# The check of the schemas finds what is wrong.
for wrong in 's/<testcase /<testcase odd="1" /' 's/ tests="[0-9]*"/ tests="97"/' 's/testsuite /testsuit /' \
	's/ classname="[^"]*"//' 's/ timestamp="[^"]*"/ timestamp="today"/'; do
	sed "$wrong" v.xml >wrong.xml
	! cmp -s v.xml wrong.xml || fail "nothing replaced by $wrong"
	! python3 "$WAYLAY_SOURCE/tests/cli/lib/verdict_schemas.py" wrong.xml >out 2>&1 || fail "not seen: $wrong"
done
for wrong in 's/"2.1.0"/"2.0.0"/' 's/"level": "error"/"level": "bad"/' 's/"executionSuccessful"/"successful"/' \
	's/"text"/"words"/' 's/"results": \[\]/"results": {}/' 's/"name": "waylay"/"name": 3/'; do
	sed "$wrong" v.sarif >wrong.sarif
	! cmp -s v.sarif wrong.sarif || fail "nothing replaced by $wrong"
	! python3 "$WAYLAY_SOURCE/tests/cli/lib/verdict_schemas.py" wrong.sarif >out 2>&1 || fail "not seen: $wrong"
done
# To standard output: then the text goes to standard error.
expect 1 waylay check --baseline base.json --json - worse
python3 -c 'import json; json.load(open("out"))' || fail "JSON on standard output"
says err WORSE
# What cannot be written is no pass.
expect 2 waylay check --baseline base.json --junit nowhere/v.xml same
says err "nowhere/v.xml: No such file or directory"
expect 1 waylay check --baseline base.json --junit nowhere/v.xml worse

# --- names that need care in a URI, in XML and in annotations
mkdir -p 'a b&<c'
cp src/train.py 'a b&<c/100%.py'
rm -rf odd
expect 0 waylay run -q --no-export --dir odd -- python3 "$PWD/a b&<c/100%.py" 1
expect 1 waylay check --max-syncs 0 --junit v.xml --sarif v.sarif --github odd
as_schemas_say v.xml v.sarif
python3 - <<'EOF' || fail "odd names"
import json
import xml.etree.ElementTree as xml
uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for r in json.load(open("v.sarif"))["runs"][0]["results"] if "locations" in r]
assert "a%20b%26%3Cc/100%25.py" in uris, uris
assert "a b&<c/100%.py" in xml.parse("v.xml").getroot().find(".//failure").text
assert "file=a b&<c/100%25.py,line=14" in open("out").read()
EOF
