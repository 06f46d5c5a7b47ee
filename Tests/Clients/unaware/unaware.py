# SPDX-License-Identifier: Apache-2.0
"""Asks for URLs, and knows of no proxy."""
import sys
import urllib.error
import urllib.request

for url in sys.argv[1:]:
    try:
        with urllib.request.urlopen(url, timeout=20) as response:
            print("python", response.status, response.read().decode())
    except urllib.error.HTTPError as error:
        print("python", error.code)
