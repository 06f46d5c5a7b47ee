# SPDX-License-Identifier: Apache-2.0
import hashlib
import os

import requests

env = os.environ
base = env["BASE"]


def session(proxy):
    made = requests.Session()
    made.trust_env = False
    made.proxies = {"http": proxy, "https": proxy}
    made.verify = env["CA"]
    return made


def pieces():
    with open(env["UPLOAD"], "rb") as file:
        while piece := file.read(100_000):
            yield piece


client = session(env["PROXY"])
answer = client.get(base + "/hello", timeout=30)
print("get", answer.text, answer.status_code)
answer = client.post(base + "/echo", data=b"some fields", timeout=30)
print("post", answer.text, answer.status_code)
refused = session(env["AUTH_PROXY"]).get(base + "/hello", timeout=30).status_code
known = env["AUTH_PROXY"].replace("://", "://user:password@")
print("auth", refused, session(known).get(base + "/hello", timeout=30).status_code)
digest = hashlib.sha256()
with client.get(base + "/large", stream=True, timeout=30) as answer:
    for piece in answer.iter_content(65536):
        digest.update(piece)
print("download", digest.hexdigest())
with open(env["PART"], "rb") as file:
    part = file.read()
answer = client.get(base + "/large", headers={"Range": f"bytes={len(part)}-"}, timeout=30)
print("resume", hashlib.sha256(part + answer.content).hexdigest())
# A generator has no length: the body is chunked.
print("upload", client.put(base + "/upload", data=pieces(), timeout=30).text)
answer = client.get(base + "/redirect", timeout=30)
print("redirect", answer.text, answer.status_code, answer.url)
answer = client.get(env["WRONG"] + "/hello", timeout=30)
print("error", answer.status_code, answer.json()["error"])
for number in ("1", "2"):
    client.get(f"{base}/keep/{env['NAME']}/{number}", timeout=30)
print("keep done")
answer = client.get(env["INNER"] + "/hello", timeout=30)
print("intercept", answer.text, answer.status_code)
try:
    client.get(env["SECURE"] + "/hello", timeout=30)
except requests.exceptions.ProxyError as error:
    print("connect", 403 if "403" in str(error) else error)
answer = requests.get(env["GATEWAY"] + "/hello", proxies={"http": None}, timeout=30)
print("gateway", answer.text, answer.status_code)
answer = session(env["TLS_PROXY"]).get(base + "/hello", timeout=30)
print("tls", answer.text, answer.status_code)
