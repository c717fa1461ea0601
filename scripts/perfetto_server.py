#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tree that the Perfetto UI reads as an extension server from the SQL package:

    scripts/perfetto_server.py [DIRECTORY]      (viewers/perfetto/server)
"""
import json
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent.parent / "viewers" / "perfetto"
out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "server"


def slices(query, title):
    return {"id": "dev.perfetto.AddDebugSliceTrack", "args": [query, title]}


def macro(name, title, modules, *commands):
    include = "".join(f"INCLUDE PERFETTO MODULE waylay.{module};" for module in modules)
    return {"id": f"waylay.{name}", "name": f"Waylay: {title}",
            "run": [{"id": "dev.perfetto.RunQuery", "args": [include]}, *commands]}


macros = [
    macro("synchronizations", "show what held the host, by place", ["sync"],
          {"id": "dev.perfetto.PinTracksByRegex", "args": ["Synchronizations", "name"]},
          {"id": "dev.perfetto.AddDebugSliceTrackWithPivot",
           "args": ["SELECT ts, dur, call AS name, rule FROM waylay_sync", "rule", "Held the host, by rule"]},
          {"id": "dev.perfetto.RunQueryAndShowTab", "args": ["SELECT * FROM waylay_sync_by_place"]}),
    macro("registrations", "show registrations, repeated ones apart", ["mr"],
          slices("SELECT ts, dur, 'registered again' AS name FROM waylay_mr WHERE repeated", "Registered again"),
          {"id": "dev.perfetto.RunQueryAndShowTab", "args": ["SELECT * FROM waylay_mr_totals"]}),
    macro("detours", "show detours through host memory", ["detours"],
          slices("SELECT slice.ts, slice.dur, slice.name FROM slice WHERE id IN (SELECT id FROM waylay_detours_out)",
                 "Sent from host memory that was copied from the device"),
          slices("SELECT slice.ts, slice.dur, slice.name FROM slice WHERE id IN (SELECT id FROM waylay_detours_in)",
                 "Copied to the device after it was received"),
          {"id": "dev.perfetto.RunQueryAndShowTab", "args": ["SELECT * FROM waylay_detours_totals"]}),
    macro("steps", "show steps and what happened in them", ["steps"],
          slices("SELECT range.ts, range.dur, range.name FROM waylay_ranges AS range WHERE name = "
                 "(SELECT name FROM waylay_step_name)", "Steps"),
          {"id": "dev.perfetto.RunQueryAndShowTab", "args": ["SELECT * FROM waylay_steps"]}),
]
files = {
    "manifest": {"name": "Waylay", "namespace": "waylay", "modules": [{"id": "default", "name": "Waylay"}],
                 "features": [{"name": "macros"}, {"name": "sql_modules"}]},
    "modules/default/macros": {"macros": macros},
    "modules/default/sql_modules": {"sql_modules": [
        {"name": f"waylay.{path.stem}", "sql": path.read_text()} for path in sorted((here / "waylay").glob("*.sql"))]},
}
for name, content in files.items():
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
