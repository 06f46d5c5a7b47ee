# SPDX-License-Identifier: Apache-2.0
# As a library for an API would: the placeholder is its key.
import os

import requests

session = requests.Session()
session.proxies = {"http": os.environ["PROXY"]}
session.headers["Authorization"] = "Bearer " + os.environ["PLACEHOLDER"]
for method, body in (("GET", None), ("POST", "message"), ("POST", iter([b"mess", b"age"]))):
    response = session.request(method, os.environ["BASE"] + "/v1/x", data=body, timeout=30)
    print(response.text if response.ok else f"refused {response.status_code}")
