# SPDX-License-Identifier: Apache-2.0
"""Asks a view server what it must refuse and what it must give:  view.py LINK FILE"""
import http.client
import os
import socket
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import browser  # noqa: E402

link, path = sys.argv[1], sys.argv[2]
want = open(path, "rb").read()
arguments = dict(one.split("=", 1) for one in link.split("#!/?", 1)[1].split("&"))
url = urllib.parse.urlsplit(arguments["url"])
origin = "https://ui.perfetto.dev"
assert link.startswith(origin + "/#!/?url=http://127.0.0.1:"), link

import json  # noqa: E402
commands = json.loads(urllib.parse.unquote(arguments["startupCommands"]))
assert [one["id"] for one in commands][:2] == ["dev.perfetto.PinTracksByRegex", "dev.perfetto.ExpandTracksByRegex"], commands
assert all(isinstance(argument, str) for one in commands for argument in one["args"])


def ask(method, where=url.path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=20)
    connection.putrequest(method, where, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


# What is refused, with nothing of the file and no word that another origin may have it.
for status, method, where, headers in (
        (403, "GET", url.path, {}),
        (403, "GET", url.path, {"Origin": "https://evil.example"}),
        (403, "GET", url.path, {"Origin": "null"}),
        (403, "GET", url.path, {"Origin": origin + ".evil.example"}),
        (403, "GET", url.path, {"Origin": origin, "Host": "evil.example"}),
        (403, "GET", url.path, {"Origin": origin, "Host": f"evil.example:{url.port}"}),
        (403, "OPTIONS", url.path, {"Origin": "https://evil.example", "Access_Control_Request_Method": "GET"}),
        (404, "GET", "/", {"Origin": origin}),
        (404, "GET", "/waylay.pftrace", {"Origin": origin}),
        (404, "GET", url.path + "x", {"Origin": origin}),
        (404, "GET", "/../../etc/passwd", {"Origin": origin}),
        (404, "POST", "/status", {"Origin": origin, "Content_Length": "0"}),
        (405, "POST", url.path, {"Origin": origin, "Content_Length": "0"}),
        (405, "HEAD", url.path, {"Origin": origin}),
        (405, "PUT", url.path, {"Origin": origin, "Content_Length": "0"}),
        (405, "DELETE", url.path, {"Origin": origin})):
    have, answer, body = ask(method, where, **headers)
    assert have == status, (status, have, method, where, headers)
    assert not body and "Access-Control-Allow-Origin" not in answer, (method, where, answer)

# Reachable over the loopback alone.
for address in {one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}:
    try:
        socket.create_connection((address, url.port), timeout=2).close()
    except OSError:
        continue
    if not address.startswith("127."):
        raise AssertionError(f"reachable at {address}")

# The preflight, as browsers send it before a page of the network may reach this machine.
status, answer, _ = ask("OPTIONS", Origin=origin, Access_Control_Request_Method="GET", Access_Control_Request_Private_Network="true")
assert status == 204 and answer["Access-Control-Allow-Origin"] == origin and answer["Access-Control-Allow-Private-Network"] == "true", answer

# A fetch that breaks off does not count as the one.
connection = socket.create_connection(("127.0.0.1", url.port), timeout=20)
connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
connection.sendall(f"GET {url.path} HTTP/1.1\r\nHost: 127.0.0.1:{url.port}\r\nOrigin: {origin}\r\n".encode())
connection.close()

if not browser.find():
    status, answer, body = ask("GET", Origin=origin)
    assert status == 200 and body == want and answer["Access-Control-Allow-Origin"] == origin
    print("asked as a browser asks; there is no chromium to ask itself")
    sys.exit(0)

# The fetch of a real page of that origin: the page is made up, its fetch is the browser's own.
page = browser.Browser()
try:
    page.call("Fetch.enable", patterns=[{"urlPattern": origin + "/*"}])
    page.number += 1
    os.write(page.write_end, json.dumps({"id": page.number, "method": "Page.navigate", "params": {"url": origin + "/"}, "sessionId": page.session}).encode() + b"\0")
    paused = None
    while not paused:
        import time
        event = page.message(time.time() + 30)
        if event.get("method") == "Fetch.requestPaused":
            paused = event["params"]["requestId"]
    page.call("Fetch.fulfillRequest", requestId=paused, responseCode=200, body="PHA+dGVzdDwvcD4=", responseHeaders=[{"name": "Content-Type", "value": "text/html"}])
    page.call("Fetch.disable")
    page.until("location.origin === 'https://ui.perfetto.dev'")
    # What a person would be asked for, once, by browsers that ask before a page reaches this machine.
    for name in "localNetworkAccess", "loopbackNetwork", "localNetwork":
        try:
            page.session, session = None, page.session
            page.call("Browser.grantPermissions", permissions=[name], origin=origin)
        except RuntimeError:
            pass
        finally:
            page.session = session
    answer = page.run("fetch(%s).then((answer) => answer.arrayBuffer()).then((data) => crypto.subtle.digest('SHA-256', data).then((sum) =>"
                      " [data.byteLength, [...new Uint8Array(sum)].map((one) => one.toString(16).padStart(2, '0')).join('')]))" % json.dumps(arguments["url"]))
    import hashlib
    assert answer == [len(want), hashlib.sha256(want).hexdigest()], answer
finally:
    page.close()
print("given to a page of", origin, "alone")
