# SPDX-License-Identifier: Apache-2.0
"""Heads within all limits whose fields refer to each other, so that a careless reader needs quadratic time."""
from __future__ import annotations

import itertools
import string

from origin import OTHER_HOST
from stage import Peer, Stage


def _names(count: int, length: int) -> list[str]:
    letters = string.ascii_lowercase + string.digits
    return ["".join(word) for word in itertools.islice(itertools.product(letters, repeat=length), count)]


TWO, FOUR = _names(400, 2), _names(38_000, 4)
FIELDS = "".join(f"X-{name}: 1\r\n" for name in TWO)
RESPONSES = {
    # As many tokens as go into limits.responseHeadBytes.
    "tokens": "Connection: " + ",".join(["a"] * 115_000) + "\r\n" + FIELDS,
    "distinct": "Connection: " + ",".join(FOUR) + "\r\n" + FIELDS,
    "private": "".join(f'Cache-Control: max-age=60, private="{",".join(name + str(place) for name in TWO[:90])}"\r\n'
                       for place in range(450)),
    "no-cache": "".join(f'Cache-Control: no-cache="x-{place}"\r\n' for place in range(450)) + FIELDS[:900],
    "vary": "Cache-Control: max-age=60\r\n" + "".join(f"Vary: {','.join(TWO[:100])}\r\n" for _ in range(400)),
    "trailer": "Trailer: " + ",".join(FOUR) + "\r\n" + FIELDS,
    # Lines that continue a field, or that are left out because no name is so.
    "folded": "X: a\r\n" + " y\r\n" * 60_000,
    "omitted": "@:\r\n" * 60_000,
    # Short references, each of which becomes as long as the URL of the redirect that was followed.
    "links": "Link: " + "<>" * 120_000 + "\r\n",
    "challenges": "WWW-Authenticate: Bearer " + "," * 60_000 + ','.join(['a="https://x"'] * 13_000) + "\r\n",
    "cookies": "".join(f"Set-Cookie: {name}={'v' * 400}; Domain=.a.test; Secure\r\n" for name in TWO),
}


class ByOrigin(Peer):
    def __init__(self, kind: str, title: str, is_short: bool, place: str = "") -> None:
        self.name, self.title, self.is_short, self.place = f"head-{kind}", title, is_short, place.encode()
        fields = RESPONSES[kind]
        assert len(fields) < 255_000, (kind, len(fields))
        self.response = f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nok".encode()

    def settings(self, stage: Stage) -> dict:
        self.stage = stage
        host = {"resolve": f"127.0.0.1:{stage.serve(self._serve)}", "redirects": {"policy": "follow"}}
        return {"cache": {"memory": "16MB"}, "hosts": {OTHER_HOST: host}}

    def _serve(self, connection) -> None:
        tls = self.stage.tls(connection)
        while request := tls.recv(65536):
            if self.place and self.place not in request:
                tls.sendall(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + self.place + b"\r\n\r\n")
            else:
                tls.sendall(self.response)

    def attack(self, stage: Stage) -> None:
        number = itertools.count()

        def ask() -> None:
            for _ in range(2 if stage.is_short else 6):
                if stage.goes_on:
                    # A stored response is asked for twice.
                    stage.ask(f"http://{OTHER_HOST}/{next(number) // 2}")
        stage.at_once(2, ask)


class ByClient(Peer):
    name = "head-client"
    title = "7: request heads of 1 MB with 195,000 tokens of Connection beside 900 fields"

    def settings(self, stage: Stage) -> dict:
        return {"limits": {"headBytes": "1MB", "headFields": 1000}}

    def attack(self, stage: Stage) -> None:
        fields = "".join(f"X-{name}: 1\r\n" for name in _names(900, 3))
        head = "Connection: " + ",".join(_names(195_000, 4)) + "\r\n" + fields

        def ask() -> None:
            for _ in range(1 if stage.is_short else 4):
                if stage.goes_on:
                    stage.ask("http://bench.test/1k", fields=head)
        stage.at_once(2, ask)


class ByTarget(Peer):
    name = "target-client"
    title = "7: targets of 64 KB with user information and UTF-8"
    is_short = True

    def settings(self, stage: Stage) -> dict:
        return {"limits": {"targetBytes": "64KB", "headBytes": "1MB"}}

    def attack(self, stage: Stage) -> None:
        targets = [f"http://{'u' * 60_000}@bench.test/1k", f"http://bench.test/{'ü' * 32_000}",
                   f"http://bench.test/1k#{'ü' * 32_000}"]

        def ask() -> None:
            for _ in range(2 if stage.is_short else 20):
                for target in targets:
                    if stage.goes_on:
                        stage.ask(target)
        stage.at_once(4, ask)


class ByRules(Peer):
    """Paths for which a search looks at each byte again and again, under a thousand rules of their host."""
    name = "target-rules"
    title = "20: targets of 8 and 60 KB under 1,000 rules with stars for their host"
    is_short = True

    def settings(self, stage: Stage) -> dict:
        paths = ["/*aab*x*", f"/*{'a' * 200}b*x*", "/*ab*ab*ab*ab*ab*x*"]
        return {"limits": {"targetBytes": "64KB", "headBytes": "1MB"}, "requests": {"policy": "allow", "rules": [
            {"id": f"r{number}", "host": "rules.bench.test", "path": paths[number % 3] + f"{number}*", "then": "deny"}
            for number in range(1000)]}}

    def attack(self, stage: Stage) -> None:
        targets = [f"http://rules.bench.test/{piece * (size // len(piece))}?{size}" for piece in ("a", "aab") for size in (8_000, 60_000)]

        def ask() -> None:
            for _ in range(2 if stage.is_short else 20):
                for target in targets:
                    if stage.goes_on:
                        stage.ask(target)
        stage.at_once(4, ask)


PEERS = [
    ByOrigin("tokens", "7: Connection of 115,000 tokens beside 400 fields, from an origin", True),
    ByOrigin("distinct", "7: Connection of 38,000 distinct tokens", True),
    ByOrigin("private", "7: 450 lines of Cache-Control: private=\"…\"", True),
    ByOrigin("no-cache", "7: 450 lines of Cache-Control: no-cache=\"…\"", False),
    ByOrigin("vary", "7: 400 lines of Vary with a hundred names each", False),
    ByOrigin("trailer", "7: Trailer of 38,000 names", False),
    ByOrigin("cookies", "7: 400 lines of Set-Cookie, rewritten", False),
    ByOrigin("links", "7: 120,000 short references behind a redirect to 16 KB", True, f"/{'x' * 16_000}/"),
    ByOrigin("challenges", "7: a challenge of 13,000 URLs and 60,000 commas behind a redirect to 16 KB", False, f"/{'x' * 16_000}/"),
    ByOrigin("folded", "7: a field of 60,000 lines", True),
    ByOrigin("omitted", "7: 60,000 lines that are left out", True),
    ByClient(),
    ByTarget(),
    ByRules(),
]
