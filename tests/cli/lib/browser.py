# SPDX-License-Identifier: Apache-2.0
"""Drives a headless Chromium over its debugging pipe: nothing but the browser and Python is needed."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find():
    for name in "chromium", "chromium-browser", "google-chrome":
        if shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    def __init__(self, width=1280, height=900, dark=False):
        self.folder = tempfile.mkdtemp()
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()

        def ends():
            # The browser reads at 3 and writes at 4.
            high_read, high_write = os.dup2(to_read, 103), os.dup2(to_write, 104)
            os.dup2(high_read, 3)
            os.dup2(high_write, 4)

        self.process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--window-size={width},{height}",
             f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=ends, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Network", "Log":
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def message(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0, deadline - time.time()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.read_end, 1 << 16)
            if not data:
                raise EOFError("the browser ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        deadline = time.time() + 60
        while True:
            answer = self.message(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, expression):
        """The value of a JavaScript expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    def until(self, expression, seconds=30):
        deadline = time.time() + seconds
        while not self.run(expression):
            if time.time() > deadline:
                raise TimeoutError(expression)
            time.sleep(0.02)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def be_origin(self, origin):
        """Shows a page of an origin without a network: it is made up, what it does is the browser's own."""
        self.call("Fetch.enable", patterns=[{"urlPattern": origin + "/*"}])
        self.number += 1
        os.write(self.write_end, json.dumps({"id": self.number, "method": "Page.navigate", "params": {"url": origin + "/"},
                                             "sessionId": self.session}).encode() + b"\0")
        answer = {"responseCode": 200, "body": base64.b64encode(b"<!doctype html><title>page</title>").decode(),
                  "responseHeaders": [{"name": "Content-Type", "value": "text/html"}]}
        deadline, shown = time.time() + 30, False
        while not shown:
            event = self.message(deadline)
            if event.get("method") == "Fetch.requestPaused":
                self.call("Fetch.fulfillRequest", requestId=event["params"]["requestId"], **answer)
                shown = True
        self.until(f"location.origin === {origin!r} && document.readyState === 'complete'")
        self.call("Fetch.disable")

    def grant(self, origin, *permissions):
        """Says yes to what a person would be asked. False where this browser knows none of them."""
        granted, self.session, session = False, None, self.session
        try:
            for known in permissions:
                try:
                    self.call("Browser.grantPermissions", permissions=[known], origin=origin)
                    granted = True
                    break
                except RuntimeError:
                    continue
        finally:
            self.session = session
        return granted

    def place(self, selector):
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        return self.run(f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect();"
                        " return [r.left + r.width / 2, r.top + r.height / 2, r.left, r.top, r.width, r.height]; })()")

    def click_at(self, x, y):
        for kind in "mousePressed", "mouseReleased":
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click(self, selector):
        x, y, *_ = self.place(selector)
        self.click_at(x, y)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path):
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def complaints(self):
        """What a page must not do: words on the console, errors, requests beyond itself."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.consoleAPICalled":
                found.append("console: " + json.dumps(params["args"]))
            elif method == "Runtime.exceptionThrown":
                found.append("exception: " + json.dumps(params["exceptionDetails"])[:500])
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append("log: " + params["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "about:", "blob:")):
                found.append("request: " + params["request"]["url"])
        return found

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
