# SPDX-License-Identifier: Apache-2.0
"""Whole reports against expected ones: every field counts.

What cannot be known beforehand is replaced on purpose, and only that: times (members that end in _ns, shares and
means over time, and the last of the three numbers of a cache's points), process ids, the host's name, the order of lists that go by
time, how often a post was tried again or a queue read in vain.
"""
import re

TIME, PID, HOST, CHANCE = "a time", "a pid", "a host", "by chance"


def rules(source):
    """Rule words and what the report says of each, from the rule table."""
    text = open(source + "/tracer/events/rules.def").read()
    found = {}
    for match in re.finditer(r"WL_RULE\((\d+), (\w+), (\w+),((?:\s*\"[^\"]*\",?)+)\)", text):
        parts = re.split(r",\s*(?=\")", match[4].strip())
        words = ["".join(re.findall(r'"([^"]*)"', part)) for part in parts]
        found[match[2]] = {"waits_for": match[3], "condition": words[0], "remedy": words[2]}
    return found


def _key(one):
    return [str(one.get(name)) for name in ("place", "rule", "class", "called_from", "call")]


def normal(value, name=""):
    """A report (or a part of it) with what is not known beforehand replaced."""
    if name.endswith("_ns") or name in ("share", "mean_bytes_in_flight"):
        return TIME
    if name == "pid":
        return PID
    if name == "host":
        return HOST
    if name in ("retries", "empty_polls"):
        return CHANCE
    if name in ("by_entries", "by_bytes"):
        return [[capacity, hits, TIME] for capacity, hits, _ in value]
    if isinstance(value, dict):
        return {key: normal(one, key) for key, one in value.items()}
    if isinstance(value, list):
        listed = [normal(one) for one in value]
        return sorted(listed, key=_key) if name in ("sites", "places", "ways", "setup") else listed
    return value


def empty(command):
    """The report of one process that did nothing, as normal() gives it."""
    nothing = {"transfers": 0, "bytes": 0, "copies": 0, "copy_bytes": 0, "held_ns": TIME}
    return {
        "schema": 1, "run": "", "simulated": True, "complete": True,
        "totals": {"events": 0, "wall_ns": TIME, "process_ns": TIME, "synchronizations": 0, "staged": 0, "polls": 0, "captured": 0,
                   "held_ns": TIME, "launches": 0, "posts": 0, "completions": 0, "empty_polls": CHANCE},
        "processes": [{"pid": PID, "host": HOST, "rank": -1, "command": command, "ended": True, "complete": True,
                       "drops": {}}],
        "ranges": [], "sites": [], "copies": [],
        "registrations": {"count": 0, "failed": 0, "repeated": 0, "bytes": 0, "peak_bytes": 0, "live": 0, "live_bytes": 0,
                          "time_ns": TIME, "kinds": [], "lifetime_p50_ns": TIME, "lifetime_p99_ns": TIME,
                          "cache": {"knee_entries": None, "knee_bytes": None, "by_entries": [], "by_bytes": []},
                          "sites": []},
        "setup": [], "transfers": [], "peers": [],
        "network": {"span_ns": TIME, "busy_ns": TIME, "idle_ns": TIME, "peak_bytes_in_flight": 0,
                    "mean_bytes_in_flight": TIME},
        "devices": [],
        "detours": {**{kind: dict(nothing) for kind in ("copied_out", "copied_in", "mapped_out", "mapped_in",
                                                        "in_provider")},
                    "direct": "unknown", "why": "", "dmabuf_exports": 0, "save_ns": TIME, "sites": []},
        "steps": {"source": None, "range": None, "launches_each": 0, "count": 0, "thinned": False, "processes": [],
                  "outliers_total": 0, "outliers": [], "straggler": None},
        "unreturned": [], "unreadable": 0,
    }


def site(file, line, function, call, count, size, ways, pageable=0):
    """A site of registrations; with held() one that holds the host. ways: {place of the caller: count}."""
    return {"place": f"{file}:{line} in {function}", "file": file, "line": line, "function": function,
            "calls": [call], "count": count, "bytes": size, "pageable": pageable, "held_ns": TIME,
            "held_p50_ns": TIME, "held_p99_ns": TIME, "held_max_ns": TIME, "share": TIME,
            "ways": sorted(({"called_from": place, "native": None, "count": n, "held_ns": TIME} for place, n in ways.items()),
                           key=_key)}


def held(of, rule, cls, table, folded=0):
    return {**of, "folded": folded, "device_idle_ns": TIME, "class": cls, "rule": rule, **table[rule]}


def compare(have, want, path="report"):
    """Says where they differ and ends the test; else returns how many values were equal."""
    if isinstance(want, dict) and isinstance(have, dict):
        assert have.keys() == want.keys(), (path, sorted(have.keys() ^ want.keys()))
        return sum(compare(have[key], want[key], f"{path}.{key}") for key in want)
    if isinstance(want, list) and isinstance(have, list):
        assert len(have) == len(want), (path, len(have), len(want), have, want)
        return sum(compare(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(have, want)))
    assert type(have) is type(want) and have == want, (path, have, want)
    return 1
