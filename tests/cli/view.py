# SPDX-License-Identifier: Apache-2.0
"""Asks a view server what it must refuse and what it must give:  view.py LINK FILE"""
import hashlib
import http.client
import json
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

commands = json.loads(urllib.parse.unquote(arguments["startupCommands"]))
ids = [one["id"].removeprefix("dev.perfetto.") for one in commands]
# A recording's costliest places have notes; of a trace as it is they are not known.
assert ids == ["PinTracksByRegex", "ExpandTracksByRegex", "ExpandTracksByRegex", "AddDebugSliceTrack", "AddDebugSliceTrack"] + ["AddNoteAtTimestamp"] * 3, ids
notes = [one["args"] for one in commands if one["id"].endswith("AddNoteAtTimestamp")]
assert all(int(at) > 0 and note.startswith(f"{i + 1}. ") and "sampler" in note + notes[0][1] for i, (at, note) in enumerate(notes)), notes
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
        (403, "GET", url.path, {"Origin": origin, "Host": "127.0.0.1"}),
        (403, "GET", url.path, {"Origin": origin, "Host": f"127.0.0.1:{url.port}.evil.example"}),
        (403, "GET", url.path, {"Origin": "http" + origin[5:]}),
        (403, "GET", url.path, {"Origin": origin + ":443"}),
        (404, "OPTIONS", "/other", {"Origin": origin, "Access_Control_Request_Method": "GET"}),
        (404, "GET", url.path.rsplit("/", 1)[0] + "/", {"Origin": origin}),
        (405, "PATCH", url.path, {"Origin": origin, "Content_Length": "0"}),
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

try:
    socket.create_connection(("::1", url.port), timeout=2).close()
    raise AssertionError("reachable at ::1, which the link does not name")
except OSError:
    pass

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
FETCH = ("fetch(%s, %s).then((answer) => answer.arrayBuffer()).then((data) => crypto.subtle.digest('SHA-256', data).then((sum) =>"
         " [data.byteLength, [...new Uint8Array(sum)].map((one) => one.toString(16).padStart(2, '0')).join('')]), (error) => String(error))")
try:
    page.be_origin(origin)
    # Browsers that guard what runs on this machine (Local Network Access) ask first; a page that was not allowed
    # gets nothing, and the server goes on waiting.
    guarded = page.run("navigator.permissions.query({name: 'loopback-network'}).then((one) => one.state, () => null)")
    if guarded is None:
        guarded = page.run("navigator.permissions.query({name: 'local-network-access'}).then((one) => one.state, () => null)")
    if guarded:
        assert guarded != "granted", guarded
        refused = page.run(FETCH % (json.dumps(arguments["url"]), "{}"))
        assert "Failed to fetch" in refused, refused
        assert page.grant(origin, "loopbackNetwork", "localNetworkAccess"), "the browser knows no such permission"
    # A preflight that the browser makes by itself: answered, and for no header beyond the ordinary ones.
    refused = page.run(FETCH % (json.dumps(arguments["url"]), "{headers: {'X-Other': '1'}}"))
    assert "Failed to fetch" in refused, refused
    # What the UI looks for first, a trace_processor at the same port: it is told that there is none.
    status = page.run("fetch(%s, {method: 'POST', cache: 'no-cache'}).then((answer) => answer.status, (error) => String(error))"
                      % json.dumps(f"http://127.0.0.1:{url.port}/status"))
    assert "Failed to fetch" in str(status), status
    answer = page.run(FETCH % (json.dumps(arguments["url"]), "{}"))
    assert answer == [len(want), hashlib.sha256(want).hexdigest()], answer
finally:
    page.close()
print("given to a page of", origin, "alone;", "this browser asks first" if guarded else "this browser does not ask")
