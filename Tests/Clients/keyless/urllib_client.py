# SPDX-License-Identifier: Apache-2.0
import os
import urllib.error
import urllib.request

opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": os.environ["PROXY"]}))
headers = {"x-api-key": os.environ["PLACEHOLDER"]} if os.environ["PLACEHOLDER"] else {}
for body in (None, b"message"):
    request = urllib.request.Request(os.environ["BASE"] + "/v1/x", data=body, headers=headers)
    try:
        print(opener.open(request, timeout=30).read().decode())
    except urllib.error.HTTPError as error:
        print("refused", error.code)
