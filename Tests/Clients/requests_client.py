import hashlib
import os

import requests

env = os.environ
base = env["BASE"]
session = requests.Session()
session.trust_env = False
session.proxies = {"http": env["PROXY"], "https": env["PROXY"]}

answer = session.get(base + "/hello", timeout=30)
print("get", answer.text, answer.status_code)
answer = session.post(base + "/echo", data=b"some fields", timeout=30)
print("post", answer.text, answer.status_code)
digest = hashlib.sha256()
with session.get(base + "/large", stream=True, timeout=30) as answer:
    for piece in answer.iter_content(65536):
        digest.update(piece)
print("download", digest.hexdigest())


def pieces():
    with open(env["UPLOAD"], "rb") as file:
        while piece := file.read(100_000):
            yield piece


# A generator has no length: the body is chunked.
print("upload", session.put(base + "/upload", data=pieces(), timeout=30).text)
answer = session.get(base + "/redirect", timeout=30)
print("redirect", answer.text, answer.status_code, answer.url)
answer = session.get(env["WRONG"] + "/hello", timeout=30)
print("error", answer.status_code, answer.json()["error"])
for number in ("1", "2"):
    session.get(f"{base}/keep/{env['NAME']}/{number}", timeout=30)
print("keep done")
answer = session.get(env["INNER"] + "/hello", verify=env["CA"], timeout=30)
print("intercept", answer.text, answer.status_code)
try:
    session.get(env["SECURE"] + "/hello", timeout=30)
except requests.exceptions.ProxyError as error:
    print("connect", 403 if "403" in str(error) else error)
