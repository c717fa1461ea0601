#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs libfabric's own test programs with and without Waylay and compares their verdicts.

Every case runs bare, with Waylay preloaded (`waylay run`), and through libfabric's own door for hooks
(FI_HOOK, nothing preloaded). A verdict is what a test's exit statuses say: passes, not there (no such
provider, endpoint or capability), fails, hangs (ended after --limit seconds). Where a traced verdict is
not the bare one, all three are run again, up to --again times: a difference stands only where it never
agrees; a bare verdict that changes by itself is marked. Where the hook's never agrees, the case runs once
more bare with FI_PROVIDER_PATH alone, which libfabric itself answers with other choices. Each run of the campaign stays in a network of
its own (as root or where user namespaces are allowed), so that fixed ports meet nobody.

    tests/fabtests/campaign.py FABTESTS_BIN --build build/release [--library DIR] --out results.json
    tests/fabtests/campaign.py --table results.json... >docs/part.md
"""
import argparse
import atexit
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROVIDERS = ["shm", "sockets", "udp;ofi_rxd", "tcp;ofi_rxm", "tcp"]
MODES = ["bare", "preload", "hook"]
NOT_THERE = {61, 38, 95}  # FI_ENODATA, FI_ENOSYS, FI_EOPNOTSUPP, as exit statuses
NETWORK = "WAYLAY_FABTESTS_NETWORK"


def own_network():
    """Starts this script again in a network that nobody else is in, if the system lets us."""
    if os.environ.get(NETWORK) or not shutil.which("unshare"):
        return
    how = ["unshare", "-n"] if os.getuid() == 0 else ["unshare", "-rn"]
    if subprocess.run(how + ["true"], stderr=subprocess.DEVNULL).returncode == 0:
        os.environ[NETWORK] = "1"
        os.execvp(how[0], how + [sys.executable] + sys.argv)


def loopback_up():
    get, put, up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(sock, get, request))[1]
        if not flags & up:
            fcntl.ioctl(sock, put, struct.pack("16sh22x", b"lo", flags | up))


def listening():
    """Whether anything waits for connections in this network: then the server is ready."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        return any(line.split()[3] == "0A" for line in table.readlines()[1:])


def adopt_orphans():
    """What a killed `waylay run` leaves behind becomes ours to reap: libfabric's shm provider takes a dead
    process that nobody has waited for to be alive and its name to be in use."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def reap():
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass


class Runner:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.base = {k: v for k, v in os.environ.items() if not k.startswith(("WAYLAY_", "FI_", "LD_PRELOAD"))}
        if options.library:
            self.base["LD_LIBRARY_PATH"] = options.library
        self.recorded = {"preload": 0, "hook": 0}
        self.live = set()
        os.makedirs(work + "/door", exist_ok=True)
        if not os.path.lexists(work + "/door/waylay-fi.so"):
            os.symlink(os.path.join(options.build, "libwaylay.so"), work + "/door/waylay-fi.so")

    def command(self, mode, command):
        env = dict(self.base)
        if mode != "bare":
            env["WAYLAY_DIR"] = self.work + "/out"
        if mode == "preload":
            command = [os.path.join(self.options.build, "waylay"), "run", "--quiet", "--no-export", "--"] + command
        elif mode == "path":
            env.update(FI_PROVIDER_PATH=self.work + "/door")
            del env["WAYLAY_DIR"]
        elif mode == "hook":
            env.update(FI_HOOK="waylay", FI_PROVIDER_PATH=self.work + "/door")
        return command, env

    def start(self, mode, name, command):
        command, env = self.command(mode, command)
        with open(f"{self.work}/{name}.log", "wb") as log:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, cwd=self.work, start_new_session=True)
        self.live.add(process)
        return process

    def end(self, process, deadline):
        try:
            return process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill(process)

    def kill(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        self.live.discard(process)

    def kill_all(self):
        for process in list(self.live):
            self.kill(process)

    def run(self, mode, how, provider, words, limit):
        """Exit statuses of the case's processes; None: had to be ended."""
        shutil.rmtree(self.work + "/out", ignore_errors=True)
        deadline = time.monotonic() + limit
        program = [os.path.join(self.options.fabtests, words[0])]
        common = program + ["-p", provider] + words[1:]
        near, far = ["-s", "127.0.0.1"], ["127.0.0.1"]
        if how == "alone":
            return [self.end(self.start(mode, "a", common), deadline)]
        if how == "uber":
            first, second = program + ["-x"], program + ["-u", self.orders(provider)] + far
        elif how == "group":
            first = second = common + near
        else:
            first, second = common + near, common + near + far
        server = self.start(mode, "a", first)
        ready = time.monotonic() + 1.0
        while time.monotonic() < ready and server.poll() is None and not listening():
            time.sleep(0.01)
        time.sleep(0.05)
        client = self.start(mode, "b", second)
        client_status = self.end(client, deadline)
        # A server whose client gave up waits for ever.
        if client_status != 0:
            deadline = min(deadline, time.monotonic() + 1.0)
        return [self.end(server, deadline), client_status]

    def orders(self, provider):
        path = self.work + "/orders.test"
        with open(path, "w", encoding="ascii") as orders:
            orders.write(
                "{ prov_name: %s, test_type: [ FT_TEST_LATENCY, FT_TEST_BANDWIDTH, ],\n"
                "  class_function: [ FT_FUNC_SEND, FT_FUNC_SENDV, FT_FUNC_SENDMSG, ],\n"
                "  ep_type: [ FI_EP_RDM, ], test_class: [ FT_CAP_MSG, FT_CAP_TAGGED, ],\n"
                "  comp_type: [ FT_COMP_QUEUE, ], test_flags: FT_FLAG_QUICKTEST },\n" % provider)
        return path

    def said(self, words):
        for name in ("a", "b"):
            if os.path.exists(f"{self.work}/{name}.log"):
                with open(f"{self.work}/{name}.log", errors="replace", encoding="utf-8") as log:
                    if any(word in log.read() for word in words):
                        return True
        return False

    def verdict(self, mode, how, provider, words, limit):
        for name in ("a", "b"):
            if os.path.exists(f"{self.work}/{name}.log"):
                os.remove(f"{self.work}/{name}.log")
        statuses = self.run(mode, how, provider, words, limit)
        reap()
        if mode in self.recorded:
            names = os.listdir(self.work + "/out") if os.path.isdir(self.work + "/out") else []
            self.recorded[mode] += any(name.endswith(".wspool") for name in names)
        client = statuses[-1]
        if client is None:
            return "hangs", statuses
        if all(status == 0 for status in statuses):
            return "passes", statuses
        # 256 - 61: a negative error handed to exit() as it is; an option that this version does not know
        if client in NOT_THERE or 256 - client in NOT_THERE or self.said(("invalid option", "unrecognized option")):
            return "not there", statuses
        if statuses[0] is None and client == 0:
            return "hangs", statuses
        return "fails", statuses


def campaign(options):
    own_network()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    loopback_up()
    adopt_orphans()
    with open(os.path.join(HERE, "cases.txt"), encoding="ascii") as lines:
        cases = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    results = []
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(options, work)
        atexit.register(runner.kill_all)
        for provider in options.providers:
            for how, *words in cases:
                if options.only and not any(o in " ".join(words) for o in options.only):
                    continue
                if not os.path.exists(os.path.join(options.fabtests, words[0])):
                    continue
                seen = {mode: [] for mode in MODES}
                for _ in range(1 + options.again):
                    for mode in MODES:
                        # What hangs bare needs no long look to be seen hanging.
                        hung = mode != "bare" and seen["bare"][-1][0] == "hangs"
                        limit = options.limit / 2 if hung else options.limit
                        seen[mode].append(runner.verdict(mode, how, provider, words, limit))
                    bare = {verdict for verdict, _ in seen["bare"]}
                    if all(bare & {verdict for verdict, _ in seen[mode]} for mode in MODES):
                        break
                if bare.isdisjoint(verdict for verdict, _ in seen["hook"]):
                    seen["path"] = [runner.verdict("path", how, provider, words, options.limit)]
                result = {"provider": provider, "test": " ".join(words),
                          "verdicts": {m: [v for v, _ in runs] for m, runs in seen.items()},
                          "statuses": {m: [s for _, s in runs] for m, runs in seen.items()}}
                results.append(result)
                print(provider, result["test"], *(f"{m}={'/'.join(result['verdicts'][m])}" for m in MODES), flush=True)
                with open(options.out, "w", encoding="utf-8") as out:
                    json.dump({"label": options.label, "results": results, "recorded": runner.recorded}, out, indent=1)
    return 1 if any(differs(r, m) for r in results for m in MODES[1:]) else 0


def differs(result, mode):
    verdicts = result["verdicts"]
    bare = set(verdicts["bare"]) | set(verdicts.get("path", []) if mode == "hook" else [])
    return bare.isdisjoint(verdicts[mode])


def table(paths):
    """Markdown: a row for each library and provider, then everything that does not simply pass or is absent."""
    print("| libfabric | provider | cases | pass | not there | fail | hang | same when preloaded | same by the hook |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    notes, total, seen = [], 0, {}
    for path in paths:  # of a case that is in several files the last counts
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        for r in data["results"]:
            seen.setdefault((data["label"], r["provider"]), {})[r["test"]] = r
    for (label, provider), cases in seen.items():
        rows = list(cases.values())
        last = [r["verdicts"]["bare"][-1] for r in rows]
        same = {m: sum(not differs(r, m) for r in rows) for m in MODES[1:]}
        total += len(rows)
        print(f"| {label} | {provider} | {len(rows)} | {last.count('passes')} | {last.count('not there')} "
              f"| {last.count('fails')} | {last.count('hangs')} | {same['preload']} | {same['hook']} |")
        for r in rows:
            if any(differs(r, m) for m in MODES[1:]) or len({v for m in MODES for v in r["verdicts"][m]}) > 1:
                notes.append(f"| {label} | {provider} | `{r['test']}` | " +
                             " | ".join(", ".join(r["verdicts"][m]) for m in MODES) +
                             (" (as bare with FI_PROVIDER_PATH)" if "path" in r["verdicts"] else "") + " |")
    print(f"\n{total} cases, each run at least once in every way.")
    if notes:
        print("\nCases whose verdict was not one and the same in every run:\n")
        print("| libfabric | provider | case | bare | preloaded | by the hook |\n|---|---|---|---|---|---|")
        print("\n".join(notes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fabtests", nargs="?", help="directory of the fabtests programs")
    parser.add_argument("--build", default="build/release", help="build of Waylay (build/release)")
    parser.add_argument("--library", help="directory of the libfabric to run with (the system's)")
    parser.add_argument("--label", default="system", help="name of that libfabric in the table")
    parser.add_argument("--out", default="fabtests.json", help="results (fabtests.json)")
    parser.add_argument("--provider", dest="providers", action="append", help="one of them; may be repeated (all five)")
    parser.add_argument("--only", action="append", help="cases whose words contain this; may be repeated")
    parser.add_argument("--limit", type=float, default=20, help="seconds for one run (20)")
    parser.add_argument("--again", type=int, default=3, help="further tries where verdicts differ (3)")
    parser.add_argument("--table", nargs="+", metavar="RESULTS", help="print the table of these results instead")
    options = parser.parse_args()
    if options.table:
        table(options.table)
        return 0
    if not options.fabtests or not os.path.isdir(options.fabtests):
        parser.error("the directory of the fabtests programs is needed: build them from libfabric's sources")
    options.providers = options.providers or PROVIDERS
    options.fabtests, options.build = os.path.abspath(options.fabtests), os.path.abspath(options.build)
    options.out = os.path.abspath(options.out)
    return campaign(options)


if __name__ == "__main__":
    sys.exit(main())
