# SPDX-License-Identifier: Apache-2.0
"""Compares the frames that the tracer reads with what `traceback` says at that moment.

Usage: frames.py STACKPROBE.so TREES SEED
"""
import ctypes
import random
import sys
import threading
import traceback

probe = ctypes.CDLL(sys.argv[1])
probe.probe_stack.restype = ctypes.c_char_p
probe.probe_notes.restype = ctypes.c_char_p
probe.probe_callback.restype = ctypes.c_char_p
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p)
probe.probe_callback.argtypes = [CALLBACK]

checked = 0
failures = []
natively = [0, 0, 0]  # same as libgcc's unwinder, different, left to it


def recorded():
    text = probe.probe_stack().decode("utf-8", "replace")
    return [tuple(line.split("\t")[1:]) for line in text.splitlines() if line.startswith("P\t")]


def expected(frame):
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_filename, str(frame.f_lineno or 0), frame.f_code.co_name))
        frame = frame.f_back
    return frames[:128]


def look():
    """Both views from one line, so that they agree on it; this frame is left out of both."""
    global checked
    got, want = recorded()[1:], expected(sys._getframe(1))
    got = got[1:]  # recorded() and look()
    checked += 1
    natively[probe.probe_compare()] += 1
    if got[:len(want)] != want[:len(got)] or (len(want) < 120 and len(got) != len(want)):
        failures.append((got, want))


def leaf(depth, rng):
    look()


def straight(depth, rng):
    step(depth - 1, rng)


def spread_over_lines(depth, rng):
    value = [
        1,
        step(
            depth - 1,
            rng,
        ),
        3,
    ]
    return value


def generator(depth, rng):
    def numbers():
        yield 1
        step(depth - 1, rng)
        yield 2

    for _ in numbers():
        pass


def delegating_generator(depth, rng):
    def inner():
        step(depth - 1, rng)
        yield

    def outer():
        yield from inner()

    list(outer())


def comprehension(depth, rng):
    return [step(depth - 1, rng) for _ in range(1)]


def in_lambda(depth, rng):
    return (lambda: step(depth - 1, rng))()


def by_sort_key(depth, rng):
    return sorted([3], key=lambda _: step(depth - 1, rng) or 0)


def in_method(depth, rng):
    class Thing:
        def __enter__(self):
            return self

        def __exit__(self, *what):
            step(depth - 1, rng)

        @property
        def value(self):
            return step(depth - 1, rng)

    if rng.random() < 0.5:
        return Thing().value
    with Thing():
        pass


def in_except(depth, rng):
    try:
        raise ValueError("x")
    except ValueError:
        step(depth - 1, rng)
    finally:
        look()


def through_c(depth, rng):
    def back():
        step(depth - 1, rng)
        return 0

    probe.probe_callback(CALLBACK(back))


def generated(depth, rng):
    """Code objects that live for a moment, at addresses used again and again."""
    blank = "\n" * rng.randrange(1, 40)
    name = "made_%d" % rng.randrange(3)
    source = "%sdef %s(step, depth, rng):\n%s    step(depth, rng)\n" % (blank, name, blank)
    scope = {}
    exec(compile(source, "<made %d>" % rng.randrange(3), "exec"), scope)
    scope[name](step, depth - 1, rng)


def churn(count):
    """Code objects one after the other at the same few addresses, that differ in one thing each."""
    for i in range(count):
        scope = {}
        for name, blank, late in (("<same>", i % 97, 0), ("<eval %06d>" % i, 0, 0), ("<late>", 0, i % 29)):
            source = ("%sdef f(look):\n    x = [0,\n        1]\n%s" % ("\n" * blank, "    x.append(\n        2)\n" * 3)
                      + "%s    look()\n" % ("\n" * late))
            exec(compile(source, name, "exec"), scope)
            scope["f"](look)
            scope.clear()


def größer_als_ascii(depth, rng):
    scope = {}
    exec(compile("def функция_名(f):\n    return f()\n", "/tmp/пример_例_😀.py", "exec"), scope)
    scope["функция_名"](lambda: step(depth - 1, rng))


def latin(depth, rng):
    scope = {}
    exec(compile("def détour(f):\n\n    return f()\n", "/tmp/é.py", "exec"), scope)
    scope["détour"](lambda: step(depth - 1, rng))


def long_function(depth, rng):
    body = "".join("    x = %d if x else [x,\n        x]\n" % i for i in range(rng.randrange(400)))
    scope = {}
    exec(compile("def f(g):\n    x = 1\n" + body + "    g()\n", "<long>", "exec"), scope)
    scope["f"](lambda: step(depth - 1, rng))


def coroutine(depth, rng):
    async def inner():
        step(depth - 1, rng)

    async def outer():
        await inner()

    c = outer()
    try:
        c.send(None)
    except StopIteration:
        pass


FORMS = [straight, spread_over_lines, generator, delegating_generator, comprehension, in_lambda,
         by_sort_key, in_method, in_except, through_c, generated, größer_als_ascii, latin,
         long_function, coroutine, leaf]


def step(depth, rng):
    if depth <= 0:
        look()
        return
    for _ in range(rng.choice([1, 1, 2])):
        rng.choice(FORMS)(depth, rng)


def trees(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        step(rng.randrange(1, 9), rng)


def main():
    count, seed = int(sys.argv[2]), int(sys.argv[3])
    probe.probe_start()
    churn(count * 11)
    trees(count, seed)
    threads = [threading.Thread(target=trees, args=(count // 20, seed + i)) for i in range(1, 8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("%s: %d stacks compared, %d made, %d differ; native: %d same, %d differ, %d left out; "
          "notes: %s" % (sys.version.split()[0], checked, probe.probe_stack_count(), len(failures),
                         *natively, probe.probe_notes().decode() or "none"))
    for got, want in failures[:2]:
        print("recorded:", *got[:12], sep="\n  ")
        print("traceback:", *want[:12], sep="\n  ")
    sys.exit(1 if failures or natively[1] or not checked else 0)


main()
