# SPDX-License-Identifier: Apache-2.0
import hashlib
import os

import httpx

env = os.environ
base = env["BASE"]


def session(proxy):
    settings = {"timeout": 30, "trust_env": False, "follow_redirects": True, "verify": env["CA"]}
    try:
        return httpx.Client(proxies=proxy, **settings)
    except TypeError:
        return httpx.Client(proxy=proxy, **settings)


with session(env["PROXY"]) as client:
    answer = client.get(base + "/hello")
    print("get", answer.text, answer.status_code)
    answer = client.post(base + "/echo", content=b"some fields")
    print("post", answer.text, answer.status_code)
    refused = session(env["AUTH_PROXY"]).get(base + "/hello").status_code
    known = env["AUTH_PROXY"].replace("://", "://user:password@")
    print("auth", refused, session(known).get(base + "/hello").status_code)
    digest = hashlib.sha256()
    with client.stream("GET", base + "/large") as answer:
        for piece in answer.iter_bytes():
            digest.update(piece)
    print("download", digest.hexdigest())
    with open(env["PART"], "rb") as file:
        part = file.read()
    answer = client.get(base + "/large", headers={"Range": f"bytes={len(part)}-"})
    print("resume", hashlib.sha256(part + answer.content).hexdigest())
    with open(env["UPLOAD"], "rb") as file:
        print("upload", client.put(base + "/upload", content=file).text)
    answer = client.get(base + "/redirect")
    print("redirect", answer.text, answer.status_code, answer.url)
    answer = client.get(env["WRONG"] + "/hello")
    print("error", answer.status_code, answer.json()["error"])
    for number in ("1", "2"):
        client.get(f"{base}/keep/{env['NAME']}/{number}")
    print("keep done")
    answer = client.get(env["INNER"] + "/hello")
    print("intercept", answer.text, answer.status_code)
    try:
        client.get(env["SECURE"] + "/hello")
    except httpx.ProxyError as error:
        print("connect", 403 if "403" in str(error) else error)
    answer = session(None).get(env["GATEWAY"] + "/hello")
    print("gateway", answer.text, answer.status_code)
