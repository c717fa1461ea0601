# SPDX-License-Identifier: Apache-2.0
"""The SQL package says what the report says:  check_sql.py TRACE_PROCESSOR PACKAGE TRACE REPORT.json"""
import csv
import io
import json
import subprocess
import sys

processor, package, trace, report = sys.argv[1:5]
report = json.load(open(report))


def ask(module, query):
    done = subprocess.run([processor, "query", "--add-sql-package", package, trace,
                           f"INCLUDE PERFETTO MODULE waylay.{module}; {query}"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{module}: {query}: {done.stderr[-2000:]}")
    rows = list(csv.reader(io.StringIO(done.stdout)))[1:]
    return [tuple(int(one) if one.lstrip("-").isdigit() else None if one == "[NULL]" else one for one in row) for row in rows]


def same(what, have, want):
    have, want = sorted(have, key=str), sorted(want, key=str)
    if have != want:
        sys.exit(f"{what}:\n  SQL has {[one for one in have if one not in want][:10]}\n  the report {[one for one in want if one not in have][:10]}")


totals = report["totals"]
same("totals", ask("sync", "SELECT * FROM waylay_sync_totals"), [(totals["synchronizations"], totals["staged"], totals["held_ns"])])
same("places", ask("sync", "SELECT place, rule, class, count, folded, held_ns, held_max_ns, bytes FROM waylay_sync_by_place"),
     [tuple(site[key] for key in ("place", "rule", "class", "count", "folded", "held_ns", "held_max_ns", "bytes")) for site in report["sites"]])
registrations = report["registrations"]
same("registrations", ask("mr", "SELECT * FROM waylay_mr_totals"), [(registrations["count"], registrations["repeated"], registrations["bytes"])])
same("registrations by place", ask("mr", "SELECT place, count, repeated, held_ns, bytes FROM waylay_mr_by_place"),
     [tuple(site[key] for key in ("place", "count", "repeated", "held_ns", "bytes")) for site in registrations["sites"]])
curve = registrations["cache"]["by_entries"]
for capacity, hits, saved in curve[::max(1, len(curve) // 4)]:
    same(f"a cache of {capacity}", ask("mr", f"SELECT * FROM waylay_mr_cache({capacity})"), [(hits, saved)])
same("transfers", ask("transfers", "SELECT operation, count, bytes, retries FROM waylay_transfers_by_operation"),
     [(one["operation"], one["count"], one["bytes"], one["retries"]) for one in report["transfers"]])
same("sizes", ask("transfers", "SELECT operation, at_most, count, bytes FROM waylay_transfers_by_size"),
     [(one["operation"], *size) for one in report["transfers"] for size in one["sizes"]])
same("peers", ask("transfers", "SELECT operation, peer, count, bytes FROM waylay_transfers_by_peer"),
     [(one["operation"], one["peer"], one["count"], one["bytes"]) for one in report["peers"]])
same("detours", ask("detours", "SELECT way, bytes, copies FROM waylay_detours_totals"),
     [(way, report["detours"][way]["bytes"], report["detours"][way]["copies"]) for way in ("copied_out", "copied_in")])
same("ranges", ask("steps", "SELECT * FROM waylay_ranges_totals"),
     [(one["name"], one["instances"], one["synchronizations"], one["synchronizations_worst"], one["staged"], one["registrations"], one["held_ns"])
      for one in report["ranges"] if one["name"] != "(step)"])
if report["steps"]["source"] == "range":
    same("the steps' range", ask("steps", "SELECT * FROM waylay_step_name"), [(report["steps"]["range"],)])
    same("steps", ask("steps", "SELECT steps, length_p50_ns FROM waylay_steps_by_process"),
         [(one["steps"], one["length_p50_ns"]) for one in report["steps"]["processes"]])
print(f"{trace}: {totals['synchronizations']} synchronizations, {registrations['count']} registrations, "
      f"{sum(one['count'] for one in report['transfers'])} transfers, {len(report['ranges'])} ranges: SQL and the report agree")
