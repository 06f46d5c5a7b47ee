# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import ssl
import urllib.error
import urllib.request

env = os.environ
base = env["BASE"]


def session(proxy):
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else {}),
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=env["CA"])),
    )


opener = session(env["PROXY"])


def ask(path, data=None, method=None, opener=opener, headers={}):
    request = urllib.request.Request(base + path, data=data, method=method, headers=headers)
    return opener.open(request, timeout=30)


def status(proxy):
    try:
        return ask("/hello", opener=session(proxy)).status
    except urllib.error.HTTPError as error:
        return error.code


with ask("/hello") as answer:
    print("get", answer.read().decode(), answer.status)
with ask("/echo", b"some fields") as answer:
    print("post", answer.read().decode(), answer.status)
print("auth", status(env["AUTH_PROXY"]), status(env["AUTH_PROXY"].replace("://", "://user:password@")))
with ask("/large") as answer:
    print("download", hashlib.sha256(answer.read()).hexdigest())
with open(env["PART"], "rb") as file:
    part = file.read()
with ask("/large", headers={"Range": f"bytes={len(part)}-"}) as answer:
    print("resume", hashlib.sha256(part + answer.read()).hexdigest())
with open(env["UPLOAD"], "rb") as file, ask("/upload", file, "PUT") as answer:
    print("upload", answer.read().decode())
with ask("/redirect") as answer:
    print("redirect", answer.read().decode(), answer.status, answer.geturl())
try:
    opener.open(env["WRONG"] + "/hello", timeout=30)
except urllib.error.HTTPError as error:
    print("error", error.code, json.load(error)["error"])
with opener.open(env["INNER"] + "/hello", timeout=30) as answer:
    print("intercept", answer.read().decode(), answer.status)
try:
    opener.open(env["SECURE"] + "/hello", timeout=30)
except urllib.error.URLError as error:
    print("connect", 403 if "403" in str(error) else error)
with session(None).open(env["GATEWAY"] + "/hello", timeout=30) as answer:
    print("gateway", answer.read().decode(), answer.status)
