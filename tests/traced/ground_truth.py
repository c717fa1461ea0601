# SPDX-License-Identifier: Apache-2.0
"""The whole report of a job beside the one that its own account demands:

    ground_truth.py rules|mix|stragglers REPORT ACCOUNT COMMAND SOURCE
"""
import json
import sys

from exact import CHANCE, TIME, PID, compare, empty, held, normal, rules, site

PAGE = 4096


# --- a job that holds the host by every rule ---------------------------------------------------------------

def of_rules(account, command, table):
    want = empty(command)
    rows = account["held"]
    missing = set(table) - {row["rule"] for row in rows} - {"none", "query"}
    assert not missing, ("rules that the program does not make", missing)
    file = "tests/traced/ground_rules.c"
    copies = {}
    for row in rows:
        pageable = row["count"] if "pageable" in (row["from"], row["to"]) else 0
        of = site(file, row["line"], row["function"], row["call"], row["count"], row["bytes"],
                  {f"{file}:{row['from_line']} in main": row["count"]}, pageable)
        want["sites"].append(held(of, row["rule"], row["class"], table))
        if row["from"]:
            key = (row["from"], row["to"], row["class"])
            count, size = copies.get(key, (0, 0))
            copies[key] = (count + row["count"], size + row["bytes"])
    want["copies"] = [{"from": a, "to": b, "class": c, "count": n, "bytes": size, "held_ns": TIME}
                      for (a, b, c), (n, size) in copies.items()]
    totals = want["totals"]
    totals["events"] = account["events"]
    totals["synchronizations"] = sum(row["count"] for row in rows if row["class"] == "waits")
    totals["staged"] = sum(row["count"] for row in rows if row["class"] == "stages")
    totals["polls"] = account["polls"]
    totals["launches"] = account["launches"]
    return want, f"{len(rows)} lines by {len({row['rule'] for row in rows})} rules"


# --- registrations, detours and steps ----------------------------------------------------------------------

def lru(sequence, entries=None, room=None):
    held_now, hits = [], 0
    for thing in sequence:
        if thing in held_now:
            hits += 1
            held_now.remove(thing)
        held_now.insert(0, thing)
        while (entries is not None and len(held_now) > entries) or \
              (room is not None and sum(PAGE * pages for _, pages in held_now) > room):
            held_now.pop()
    return hits


def curve(sequence, capacities, of):
    """Where hits are gained, by a cache simulated at every capacity."""
    points, before = [], 0
    for capacity in capacities:
        hits = lru(sequence, **{of: capacity})
        if hits > before:
            points.append([capacity, hits, TIME])
        before = hits
    return points


def knee(points):
    return next((point[0] for point in points if point[1] * 100 >= points[-1][1] * 95), None)


def ended(peak):
    """Registrations of which each was closed before the next one."""
    return {"live": 0, "live_bytes": 0, "peak_bytes": peak, "lifetime_p50_ns": TIME, "lifetime_p99_ns": TIME}


def registrations(want, account, places, file):
    sequence = [("buffer", 16)] + [tuple(one) for one in account["registered"]]
    different = set(sequence)
    all_pages = sum(pages for _, pages in different)
    entries = curve(sequence, range(1, len(different) + 2), "entries")
    size = curve(sequence, range(PAGE, (all_pages + 2) * PAGE, PAGE), "room")
    of = want["registrations"]
    of["count"] = len(sequence)
    of["repeated"] = len(sequence) - len(different)
    of["bytes"] = sum(PAGE * pages for _, pages in sequence)
    of["peak_bytes"] = PAGE * (16 + max(pages for _, pages in sequence[1:]))
    of["kinds"] = [{"kind": "host", "count": len(sequence), "failed": 0, "bytes": of["bytes"], "time_ns": TIME,
                    **ended(of["peak_bytes"])}]
    of["cache"] = {"knee_entries": knee(entries), "knee_bytes": knee(size), "by_entries": entries, "by_bytes": size}
    for name, part in ("open_all", sequence[:1]), ("churn", sequence[1:]):
        at = places[name]
        one = site(file, at["line"], name, "fi_mr_reg", len(part), sum(PAGE * pages for _, pages in part),
                   {f"{file}:{at['from_line']} in main": len(part)})
        of["sites"].append({**one, "repeated": len(part) - len(set(part)),
                            **ended(PAGE * max(pages for _, pages in part))})


def of_mix(account, command, table):
    want, file = empty(command), "tests/traced/ground_truth.c"
    piece, sends = account["piece"], account["sends"]
    places = {one["call"] if one["function"] == "step" else one["function"]: one for one in account["places"]}
    ways = {"cuMemcpyDtoH_v2": ("copy_to_host", piece), "cuMemcpyHtoD_v2": ("copy_from_pageable", piece),
            "cuStreamSynchronize": ("stream_wait", 0)}

    def waits(call, count):
        rule, size = ways[call]
        at = places[call]
        of = site(file, at["line"], "step", call, count, count * size,
                  {f"{file}:{at['from_line']} in main": count}, count if size else 0)
        return held(of, rule, "waits", table)

    seen = [call for call in ways if places[call]["count"]]
    want["sites"] = [waits(call, places[call]["count"]) for call in seen]
    want["totals"].update(synchronizations=account["waits"], posts=2 * sends, completions=2 * sends,
                          # with the runs of reads in vain among them
                          events=CHANCE)
    want["ranges"] = [{
        "name": "step", "instances": account["steps"], "unclosed": 0, "synchronizations": account["waits"],
        "synchronizations_worst": account["waits_worst"], "staged": 0, "staged_worst": 0, "registrations": 0,
        "registrations_worst": 0, "unreturned": 0, "held_ns": TIME, "length_p50_ns": TIME, "length_p99_ns": TIME,
        "places": [{"place": f"{file}:{places[call]['line']} in step",
                    "called_from": f"{file}:{places[call]['from_line']} in main", "class": "waits",
                    "rule": ways[call][0], "count": places[call]["count"], "held_ns": TIME} for call in seen]}]
    for call, source, target in ("cuMemcpyDtoH_v2", "device", "pageable"), ("cuMemcpyHtoD_v2", "pageable", "device"):
        count = places[call]["count"]
        if count:
            want["copies"].append({"from": source, "to": target, "class": "waits", "count": count,
                                   "bytes": count * piece, "held_ns": TIME})
    registrations(want, account, places, file)
    want["setup"] = [{"call": call, "count": count, "failed": 0, "held_ns": TIME, "longest_ns": TIME}
                     for call, count in (("fi_getinfo", 1), ("fi_fabric", 1), ("fi_domain", 1), ("fi_cq_open", 1),
                                         ("fi_av_open", 1), ("fi_endpoint", 1), ("fi_bind", 2), ("fi_enable", 1),
                                         ("fi_getname", 1), ("fi_av_insert", 1), ("fi_close", 5))]
    who = {"process": 0, "rank": -1, "pid": PID}
    for operation in ("tsend", "trecv") if sends else ():
        want["transfers"].append({
            "operation": operation, "count": sends, "bytes": sends * piece, "failed": 0, "unfinished": 0,
            "matched_by_order": 0, "retries": CHANCE, "busy_ns": TIME, "latency_p50_ns": TIME, "latency_p99_ns": TIME,
            "sizes": [[piece, sends, sends * piece]]})
        want["peers"].append({**who, "operation": operation, "peer": account["self"], "count": sends,
                              "bytes": sends * piece, "busy_ns": TIME, "latency_p50_ns": TIME,
                              "latency_p99_ns": TIME})
    want["network"]["peak_bytes_in_flight"] = 2 * piece if sends else 0
    detours = want["detours"]
    for kind, transfers, copies in (("copied_out", account["out_transfers"], account["out_copies"]),
                                    ("copied_in", account["in_copies"], account["in_copies"])):
        detours[kind].update(transfers=transfers, bytes=transfers * piece, copies=copies, copy_bytes=copies * piece)
    detours["direct"] = "not offered"
    detours["why"] = ("Device memory is staged through the host, because %s was opened without FI_HMEM; the job did "
                      "not ask for it" % account["provider"])
    detours["sites"] = [waits(call, count) for call, count in (("cuMemcpyDtoH_v2", account["out_copies"]),
                                                               ("cuMemcpyHtoD_v2", account["in_copies"])) if count]
    middle = sorted(account["waits_each"])[(account["steps"] - 1) // 2]
    want["steps"].update(source="range", range="step", count=account["steps"], outliers=CHANCE,
                         outliers_total=CHANCE, processes=[{
                             **who, "steps": account["steps"], "length_p50_ns": TIME, "busy_p50_ns": TIME,
                             "held_p50_ns": TIME, "network_p50_ns": TIME, "synchronizations_p50": middle,
                             "staged_p50": 0, "registrations_p50": 0, "launches_p50": 0}])
    return want, f"{len(account['registered']) + 1} registrations, {sends} sends"


# --- ranks, one of them slow -------------------------------------------------------------------------------

def of_stragglers(account, command, table):
    ranks, steps, slow = account["ranks"], account["steps"], account["slow"]
    want, file = empty(command), "tests/traced/ground_straggler.c"
    place, caller = f"{file}:{account['line']} in rank_run", f"{file}:{account['from_line']} in main"
    all_steps, messages = ranks * steps, 2 * (ranks - 1) * steps
    one = want["processes"][0]
    want["processes"] = [{**one, "rank": rank, "command": f"{command} {rank}"} for rank in range(ranks)] + [one]
    want["totals"].update(events=CHANCE, synchronizations=all_steps, posts=2 * messages, completions=2 * messages)
    want["sites"] = [held(site(file, account["line"], "rank_run", "cuStreamSynchronize", all_steps, 0,
                               {caller: all_steps}), "stream_wait", "waits", table)]
    want["ranges"] = [{
        "name": "step", "instances": all_steps, "unclosed": 0, "synchronizations": all_steps,
        "synchronizations_worst": 1, "staged": 0, "staged_worst": 0, "registrations": 0, "registrations_worst": 0,
        "unreturned": 0, "held_ns": TIME, "length_p50_ns": TIME, "length_p99_ns": TIME,
        "places": [{"place": place, "called_from": caller, "class": "waits", "rule": "stream_wait",
                    "count": all_steps, "held_ns": TIME}]}]
    want["setup"] = [{"call": call, "count": count, "failed": 0, "held_ns": TIME, "longest_ns": TIME}
                     for call, count in (("fi_getinfo", ranks + 1), ("fi_fabric", ranks), ("fi_domain", ranks),
                                         ("fi_cq_open", ranks), ("fi_av_open", ranks), ("fi_endpoint", ranks),
                                         ("fi_bind", 2 * ranks), ("fi_enable", ranks), ("fi_getname", ranks),
                                         ("fi_av_insert", ranks * ranks), ("fi_close", 5 * ranks))]
    size = account["bytes"]
    want["transfers"] = [{
        "operation": operation, "count": messages, "bytes": messages * size, "failed": 0, "unfinished": 0,
        "matched_by_order": 0, "retries": CHANCE, "busy_ns": TIME, "latency_p50_ns": TIME, "latency_p99_ns": TIME,
        "sizes": [[size, messages, messages * size]]} for operation in ("tsend", "trecv")]
    want["peers"] = [{
        "process": rank, "rank": rank, "pid": PID, "operation": operation, "peer": peer, "count": steps,
        "bytes": steps * size, "busy_ns": TIME, "latency_p50_ns": TIME, "latency_p99_ns": TIME}
        for rank in range(ranks) for operation in ("tsend", "trecv")
        for peer in (range(1, ranks) if rank == 0 else (0,))]
    want["network"]["peak_bytes_in_flight"] = (ranks - 1) * size
    want["detours"].update(direct="not offered", why="Device memory is staged through the host, because %s was opened "
                           "without FI_HMEM; the job did not ask for it" % account["provider"])
    want["steps"].update(source="range", range="step", count=all_steps, outliers=CHANCE, outliers_total=CHANCE,
                         processes=[{
                             "process": rank, "rank": rank, "pid": PID, "steps": steps, "length_p50_ns": TIME,
                             "busy_p50_ns": TIME, "held_p50_ns": TIME, "network_p50_ns": TIME,
                             "synchronizations_p50": 1, "staged_p50": 0, "registrations_p50": 0, "launches_p50": 0}
                             for rank in range(ranks)],
                         straggler=None if slow < 0 else
                         {"process": slow, "rank": slow, "pid": PID, "longer_busy_ns": TIME})
    return want, "no straggler" if slow < 0 else f"rank {slow} of {ranks} is the straggler"


def detours_found(report, account):
    """Recall and precision of detours among all transfers, by bytes."""
    found = report["detours"]["copied_out"]["bytes"] + report["detours"]["copied_in"]["bytes"]
    real = (account["out_transfers"] + account["in_copies"]) * account["piece"]
    return (f"recall {100 * min(found, real) / real if real else 100:g} %, "
            f"precision {100 * min(found, real) / found if found else 100:g} %")


def main():
    kind, report_path, account_path, command, source = sys.argv[1:]
    report, account = json.load(open(report_path)), json.load(open(account_path))
    table = rules(source)
    want, words = {"rules": of_rules, "mix": of_mix, "stragglers": of_stragglers}[kind](account, command, table)
    have = normal(report)
    if kind != "rules":  # runs of reads in vain are events, too; which steps took long goes by the machine
        have["totals"]["events"] = CHANCE
        have["steps"].update(outliers=CHANCE, outliers_total=CHANCE)
    if kind == "mix":
        words += "; " + detours_found(report, account)
    for one in have, want:  # in the order in which they first came
        one["copies"].sort(key=lambda copy: (copy["from"], copy["to"], copy["class"]))
    equal = compare(have, normal(want))
    print(f"{words}: all {equal} values of the report as they must be")


main()
