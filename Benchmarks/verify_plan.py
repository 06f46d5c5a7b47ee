# SPDX-License-Identifier: Apache-2.0
"""What an exchange of the verifying load is: everything of it, on both sides, follows from its path.

/plain/N      GET, HEAD, POST or PUT; nothing is stored        /range/N   a part of a body
/cached/K     stored; fresh for a second or a minute           /fault/N.K the origin breaks off, lies or sends garbage
/file/K?N     a file of nginx or nghttpd over HTTP/2; /file/K.post?N asks nginx with a POST whose body is empty
"""
from __future__ import annotations

import functools
import gzip
import random
from dataclasses import dataclass, field

from origin import CLOSING_HOST, FILE_HOSTS, KEPT_HOST, OTHER_HOST

# The origin of HTTP/1.1, that of HTTP/2, and the one of HTTP/1.1 whose connections come to harm.
HOSTS = (KEPT_HOST, OTHER_HOST)
FAULTY_HOST = CLOSING_HOST
CACHED = 200
FILES = 60
# Faults that end an origin's connection, and faults that an origin of HTTP/2 can have in one stream alone.
CONNECTION_FAULTS = ("cut", "cut-chunks", "bad-chunks", "reset", "reset-early", "silence", "half-head", "two-lengths", "garbage")
STREAM_FAULTS = ("reset-stream", "longer", "shorter", "reset-early", "reset-no-error")

Fields = list[tuple[str, str]]


@dataclass
class Plan:
    path: str
    kind: str
    host: str
    method: str = "GET"
    fields: Fields = field(default_factory=list)
    # Of the request.
    sent_size: int = 0
    is_chunked: bool = False
    sent_trailers: Fields = field(default_factory=list)
    # Of the response.
    status: int = 200
    size: int = 0
    answer_is_chunked: bool = False
    answer_fields: Fields = field(default_factory=list)
    answer_trailers: Fields = field(default_factory=list)
    is_text: bool = False
    is_packed: bool = False
    range: tuple[int, int] | None = None
    fault: str | None = None

    @property
    def has_sent_body(self) -> bool:
        return self.method in ("POST", "PUT")

    def sent(self) -> bytes:
        return content(f"sent {self.path}", self.sent_size, False) if self.has_sent_body else b""

    def whole_answer(self) -> bytes:
        """What the resource holds, coded as it goes over the wire."""
        whole = content(f"answer {self.path.partition('?')[0]}", self.size, self.is_text)
        return gzip.compress(whole, 1, mtime=0) if self.is_packed else whole

    def entity_tag(self) -> str:
        return f'"{self.path}"'


@functools.lru_cache(maxsize=64)
def content(seed: str, size: int, is_text: bool) -> bytes:
    generator = random.Random(seed)
    if not is_text:
        return generator.randbytes(size)
    line = f"{seed} {generator.randrange(1 << 30)} the quick brown fox\n".encode()
    return (line * (size // len(line) + 1))[:size]


def _size(generator: random.Random, large: float = 0.006) -> int:
    kind = generator.random()
    if kind < 0.1:
        return 0
    if kind < 0.55:
        return generator.randrange(1, 2000)
    if kind < 0.9:
        return generator.randrange(2000, 40_000)
    if kind < 1 - large:
        return generator.randrange(40_000, 200_000)
    return generator.randrange(1 << 20, 4 << 20)


_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def _fields(generator: random.Random, prefix: str, most: int) -> Fields:
    return [(f"x-{prefix}-{''.join(generator.choices(_LETTERS, k=generator.randrange(1, 12)))}-{place}",
             "".join(generator.choices(_LETTERS + " ,;=\"/", k=generator.randrange(1, 60))).strip() or "v")
            for place in range(generator.randrange(most))]


def path_of(number: int) -> str:
    """The path of an exchange by its number; of those that are stored several have the same."""
    generator = random.Random(f"path {number}")
    kind = generator.random()
    if kind < 0.28:
        return f"/cached/{generator.randrange(CACHED)}"
    if kind < 0.36:
        return f"/range/{number}"
    if kind < 0.45:
        if generator.random() < 0.6:
            return f"/fault/{number}.{generator.choice(CONNECTION_FAULTS)}"
        return f"/fault/{number}.h2-{generator.choice(STREAM_FAULTS)}"
    if kind < 0.65:
        return f"/file/{generator.randrange(FILES)}{generator.choice(('', '', '.post'))}?{number}"
    return f"/plain/{number}"


def files() -> list[Plan]:
    """What the servers for files have to offer."""
    return [plan_of(f"/file/{number}{method}") for number in range(FILES) for method in ("", ".post")]


@functools.lru_cache(maxsize=1024)
def plan_of(path: str) -> Plan:
    path, _, number = path.partition("?")
    generator = random.Random(f"plan {path}")
    kind = path.split("/")[1]
    plan = Plan(path, kind, generator.choice(HOSTS))
    plan.fields = _fields(generator, "ask", 6)
    plan.answer_fields = _fields(generator, "say", 6)
    plan.is_text = generator.random() < 0.5
    plan.is_packed = plan.is_text and generator.random() < 0.4
    plan.answer_is_chunked = generator.random() < 0.4
    if kind == "file":
        plan.host = FILE_HOSTS[0 if path.endswith(".post") else generator.randrange(2)]
        plan.fields, plan.answer_fields, plan.is_packed, plan.answer_is_chunked = [], [], False, False
        # About the window of a stream, often.
        plan.size = generator.choice((0, 1, 16_384, 39_849, 40_000, 65_535, 65_536, 131_072, 300_000))
        if path.endswith(".post"):
            plan.method, plan.is_chunked = "POST", True
        # No two are the same to the cache.
        plan.path += f"?{number}" if number else ""
    elif kind == "plain":
        plan.method = generator.choices(("GET", "HEAD", "POST", "PUT"), (5, 1, 2, 2))[0]
        plan.size = _size(generator)
        if plan.has_sent_body:
            plan.sent_size = _size(generator)
            plan.is_chunked = generator.random() < 0.5
            if plan.is_chunked and generator.random() < 0.4:
                plan.sent_trailers = _fields(generator, "ask-end", 4)
        plan.status = generator.choice((200, 200, 200, 201, 404, 500))
        if plan.answer_is_chunked and plan.method != "HEAD" and generator.random() < 0.4:
            plan.answer_trailers = _fields(generator, "say-end", 4)
        plan.answer_fields.append(("cache-control", "no-store"))
    elif kind == "cached":
        plan.size = _size(generator, large=0.02)
        # A stored answer has no trailer section.
        plan.answer_fields += [("cache-control", f"max-age={generator.choice((1, 60))}"), ("etag", plan.entity_tag())]
        plan.fields = []
    elif kind == "range":
        plan.size = generator.randrange(2, 100_000)
        plan.is_packed = plan.answer_is_chunked = False
        first = generator.randrange(plan.size)
        plan.range = (first, generator.randrange(first, plan.size))
        plan.status = 206
        plan.answer_fields += [("cache-control", "no-store"),
                               ("content-range", f"bytes {first}-{plan.range[1]}/{plan.size}")]
    else:
        plan.fault = path.split(".")[1]
        plan.host = OTHER_HOST if plan.fault.startswith("h2-") else FAULTY_HOST
        plan.size = generator.randrange(2000, 60_000)
        plan.is_packed = False
        plan.answer_fields.append(("cache-control", "max-age=60"))
    return plan
