# SPDX-License-Identifier: Apache-2.0
"""A worker without Python frames works for a thread that stands in the engine's call.

The engine is a file laid out as PyTorch's is: what counts is where the waiting thread's innermost frame
comes from.     awaited.py STACKPROBE.so
"""
import ctypes
import os
import sys
import tempfile
import threading

probe = ctypes.CDLL(sys.argv[1])
for function in (probe.probe_on_thread, probe.probe_notes):
    function.restype = ctypes.c_char_p
probe.probe_start()

ENGINE = """
def _engine_run_backward(call):
    return call()
"""
folder = tempfile.mkdtemp()
package = os.path.join(folder, "torch", "autograd")
os.makedirs(package)
for name, text in (("__init__.py", ""), ("graph.py", ENGINE)):
    with open(os.path.join(package, name), "w") as out:
        out.write(text)
open(os.path.join(folder, "torch", "__init__.py"), "w").close()
sys.path.insert(0, folder)
from torch.autograd.graph import _engine_run_backward  # noqa: E402


def frames(text):
    lines = [line.split("\t") for line in text.decode().splitlines()]
    return [(os.path.basename(f[1]), int(f[2]), f[3]) for f in lines if f[0] == "A"], \
        sum(f[0] == "P" for f in lines), sum(f[0] == "N" for f in lines)


def step(call):
    return _engine_run_backward(call)  # line 40


def check(got, want, what):
    if got != want:
        sys.exit("%s: recorded %r, not %r" % (what, got, want))


# Nobody waits in the engine: nothing is guessed.
awaited, python, native = frames(probe.probe_on_thread())
check((awaited, python), ([], 0), "no engine")
assert native > 1

# One thread does.
want = [("graph.py", 3, "_engine_run_backward"), ("awaited.py", 40, "step")]
awaited, python, native = frames(step(probe.probe_on_thread))
check((awaited[:2], python), (want, 0), "one waits")
assert len(awaited) == 3 and native > 1, awaited

# It may be another thread than the first, which does something else meanwhile.
result = []
thread = threading.Thread(target=lambda: result.append(step(probe.probe_on_thread)))
thread.start()
while thread.is_alive():
    sum(range(1000))
thread.join()
check(frames(result[0])[0][:2], want, "another thread waits")

# Two do: it cannot be told which, so none is shown.
thread = threading.Thread(target=_engine_run_backward, args=(probe.probe_hold,))
thread.start()
while not probe.probe_held():
    pass
awaited = frames(step(probe.probe_on_thread))[0]
probe.probe_release()
thread.join()
check(awaited, [], "two wait")

# Threads that come and go all the time while it looks: no crash, and never a wrong line.
stop = False


def churn():
    while not stop:
        t = threading.Thread(target=lambda: [step(lambda: None) for _ in range(3)])
        t.start()
        t.join()


churners = [threading.Thread(target=churn) for _ in range(3)]
for t in churners:
    t.start()
seen = 0
for _ in range(300):
    awaited = frames(step(probe.probe_on_thread))[0]
    if awaited:
        seen += 1
        check(awaited[:2], want, "with threads that come and go")
stop = True
for t in churners:
    t.join()
assert seen > 30, seen
print("%s: awaited frames right, %d of 300 among threads that come and go; notes: %s" % (
    sys.version.split()[0], seen, probe.probe_notes().decode() or "none"))
