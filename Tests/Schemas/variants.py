#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes variants of correct files, and compares what the loader says of each with what the JSON Schema says.

    variants.py documents KIND              the variants, one JSON document a line; always the same ones
    variants.py compare KIND < VERDICTS     the differences; VERDICTS has the loader's errors of each, a JSON array of strings a line

A number behind KIND: each so-many-th variant alone, and those made by hand. Whether everything that is listed happens is looked at for all of them alone.

KIND is config or pin-file. A variant has one or two changes: another type, another value, a key more or less, one element more or
less. `differences.json` lists what one side alone can say, each with its reason. Needs python3-jsonschema.
"""
from __future__ import annotations

import copy
import json
import re
import sys
from pathlib import Path
from typing import Any, Iterator

FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parent.parent
SCHEMAS = {"config": "config.schema.json", "pin-file": "pin-file.schema.json"}
EXAMPLES = {
    "config": ["config.example.json", "deploy/config.json", "Examples/*.json", "Tests/Schemas/config-*.json"],
    "pin-file": ["pins/*.json", "Tests/Schemas/pin-file-*.json"],
}
SINGLE, PAIRS = 1500, 500

OTHER_TYPES: list[Any] = [None, True, 0, 1.5, "", "x", [], {}, [[]], [None], {"x": 1}]
NUMBERS = [-1, 0, 1, 2, 9, 10, 100, 101, 256, 257, 65535, 65536, 1_000_001, 10**12, 1.0, 2.5]
# By what they look like: strings that are almost one of the forms.
STRINGS = [
    " ", "a b", "ü", "*", "**", "-", "a\nb", "a\tb", "x" * 300, "0", "-1s", "0s", "1s", "1.5s", "240h", "241h", "999999999h", "1d",
    "30S", "5 s", "20s", "59s", "1KB", "0KB", "64kb", "3KB", "2MB", "100TB", "2048GB", "1.5MB", "1048577GB",
    "127.0.0.1:0", "127.0.0.1:1", "127.0.0.1:65536", "127.0.0.1:99999", "127.0.0.1", "127.1:80", "256.0.0.1:80", "01.2.3.4:80",
    "[::1]:8080", "[::1]:0", "[::g]:80", "[::ffff:127.0.0.1]:80", "::1:80", "localhost:80", "0.0.0.0:80", "10.0.0.0/8", "10.0.0.0/33",
    "10.0.0.1/8", "fd00::/129", "fd00::/8", "::1", "1.2.3.4", "1.2.3", "fe80::1%eth0",
    "example.com", "EXAMPLE.com", "example.com.", ".example.com", "example..com", "*.example.com", "*.*.com", "a.*.com", "_dmarc.example.com",
    "xn--bcher-kva.example", "bücher.example", "exa mple.com", "example.com:443", "-a.example", "a" * 64 + ".example", "1.2.3.4.5", "com",
    "https://example.com", "HTTPS://example.com", "http://example.com", "https://example.com/", "https://example.com/a",
    "https://example.com:443", "https://example.com:0", "https://example.com:65536", "https://u:p@example.com", "https://", "https://[::1]",
    "https://example.com?q", "https://example.com/#f", "ftp://example.com", "//example.com",
    "http://127.0.0.1:3128", "socks5h://127.0.0.1:1080", "SOCKS5H://127.0.0.1:1080", "socks5h://u:p@127.0.0.1:1080", "http://u:p@proxy:1",
    "http://u@proxy:1", "http://proxy", "http://proxy:1/", "http://proxy:1/x", "http://proxy:0", "http://proxy:65536", "none",
    "/", "/a", "/a?b", "/a#b", "/a*b*c*d*e*f*g*h*i", "/a*b*c*d*e*f*g*h*i*j", "a/b", "*a", "/ü", "/%41", "/%zz", "/%2F", "/a b", "../x",
    "GET", "get", "read", "POST", "G ET", "CONNECT", "X-A", "x-a", "X A", "Host", "Connection", "Content-Length", "Transfer-Encoding",
    "Authorization", "Cookie", "Via", "X-Forwarded-For", ":path", "text/html", "TEXT/html", "text/*", "*/*", "text", "text/html; q=1",
    "*/html", "2xx", "6xx", "200-299", "299-200", "199", "600", "200", "200-200", "100-200", "1.1", "2", "on", "off",
    "2027-02-28", "2027-02-30", "1969-12-31", "2027-1-1", "2020-01-01", "10000-01-01", "9999-12-31",
    "sha256/AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=", "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=",
    "sha256/AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwN=", "SHA256/AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=", "sha256/AwM=",
    "intercept", "tunnel", "deny", "allow", "report", "follow", "rewrite", "cancel", "becomeDownload", "store", "skip", "gateway", "forward", "transparent", "verify",
    "letsencrypt", "X25519", "X25519MLKEM768", "1.2", "1.3", "certificate", "publicKey", "unpinned", "leaf", "chain", "any", "ca",
]


class Numbers:
    """The same numbers on every machine and version of Python (Knuth's MMIX generator)."""

    def __init__(self, seed: int):
        self.state = seed

    def below(self, bound: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % bound


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], path + (key,))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from places(value[index], path + (index,))


def at(document: Any, path: tuple) -> Any:
    for step in path:
        document = document[step]
    return document


# The keys of these objects are names that people choose.
MAPS = re.compile(r"^/(hosts|credentials|pinnedDomains|.*/(set|add|addHeaders|setHeaders|parameters))$")


def shape(path: tuple) -> str:
    """The place without the names and numbers that people choose."""
    text = ""
    for step in path:
        text += "/-" if isinstance(step, int) or MAPS.match(text) else f"/{step}"
    return text


def known_members(documents: list[Any]) -> dict[str, dict[str, list[Any]]]:
    """By the shape of an object: the keys that it has anywhere, with values."""
    found: dict[str, dict[str, list[Any]]] = {}
    for document in documents:
        for path in places(document):
            value = at(document, path)
            if isinstance(value, dict):
                for key, member in value.items():
                    values = found.setdefault(shape(path), {}).setdefault(key, [])
                    if member not in values:
                        values.append(member)
    return found


def changes(document: Any, members: dict[str, dict[str, list[Any]]]) -> list[tuple]:
    """What can be changed in a document: a place and a new value, a key to add or to take out, an element to repeat."""
    found: list[tuple] = []
    for path in places(document):
        value = at(document, path)
        found += [("set", path, other) for other in OTHER_TYPES if other != value or type(other) is not type(value)]
        if isinstance(value, str):
            found += [("set", path, text) for text in STRINGS]
            found += [("set", path, text) for text in (value + " ", " " + value, value + "x", value.upper(), value.lower(), value + "\n")]
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found += [("set", path, number) for number in NUMBERS] + [("set", path, value + 1), ("set", path, str(value))]
        elif isinstance(value, bool):
            found.append(("set", path, not value))
        elif isinstance(value, dict):
            found += [("remove", path + (key,)) for key in value]
            found += [("set", path + (key,), 0) for key in ("unknown", "Comment", "")] + [("set", path + ("comment",), "why")]
            for key, values in members.get(shape(path), {}).items():
                found += [("set", path + (key,), member) for member in values if value.get(key) != member]
            if MAPS.match(shape(path)):
                for text in STRINGS[:110]:
                    found += [("set", path + (text,), member) for member in list(value.values())[:1]]
        elif isinstance(value, list) and value:
            found += [("repeat", path), ("remove", path + (len(value) - 1,))]
            found += [("append", path, other) for other in ("x", "ü", 7, None, {})]
    return found


def apply(document: Any, change: tuple) -> Any:
    document = copy.deepcopy(document)
    kind, path = change[0], change[1]
    try:
        if kind == "set":
            if not path:
                return copy.deepcopy(change[2])
            at(document, path[:-1])[path[-1]] = copy.deepcopy(change[2])
        elif kind == "remove":
            del at(document, path[:-1])[path[-1]]
        elif kind == "repeat":
            at(document, path).append(copy.deepcopy(at(document, path)[0]))
        else:
            at(document, path).append(copy.deepcopy(change[2]))
    except (KeyError, IndexError, TypeError, AttributeError):
        pass  # The first of two changes took the place of the second away.
    return document


def variants(kind: str, step: int) -> list[str]:
    files = [file for pattern in EXAMPLES[kind] for file in sorted(REPOSITORY.glob(pattern))]
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    members = known_members(documents)
    each = [(document, changes(document, members)) for document in documents]
    possible = [(document, change, others) for document, others in each for change in others]
    numbers = Numbers(41)
    made = {json.dumps(document): None for document in documents}
    while len(made) < len(documents) + SINGLE + PAIRS:
        document, change, others = possible[numbers.below(len(possible))]
        changed = apply(document, change)
        if len(made) >= len(documents) + SINGLE:
            changed = apply(changed, others[numbers.below(len(others))])
        made[json.dumps(changed)] = None
    by_hand = [json.dumps(document) for document in json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))[kind]]
    return list(dict.fromkeys(list(made)[::step] + by_hand))


def for_python(schema: Any) -> Any:
    """The schema with patterns in Python's spelling: in that of JSON Schema (ECMA-262) $ is the end, never the place before a newline."""
    if isinstance(schema, list):
        return [for_python(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: for_python(member) for key, member in schema.items()}
    if isinstance(made.get("pattern"), str):
        # Of a class of characters $ is a member.
        pieces = re.split(r"(\\.|\[(?:\\.|[^\]\\])*\])", made["pattern"])
        made["pattern"] = "".join(piece if index % 2 else piece.replace("$", r"\Z") for index, piece in enumerate(pieces))
    return made


def texts(errors: Any) -> Iterator[str]:
    """The innermost errors: those of a branch of anyOf that is meant say more than that none holds."""
    for error in errors:
        yield f"/{'/'.join(str(step) for step in error.absolute_path)}: {error.validator} {json.dumps(error.validator_value)[:80]}"


def compare(kind: str, verdicts: list[list[str]], documents: list[str], are_all: bool = True) -> list[str]:
    from jsonschema import Draft202012Validator

    schema = json.loads((REPOSITORY / "docs/schema" / SCHEMAS[kind]).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(for_python(schema))
    listed = json.loads((FOLDER / "differences.json").read_text(encoding="utf-8"))
    loader = [(re.compile(entry["error"]), entry) for entry in listed["loader"] if kind in entry["files"]]
    used: set[str] = set()
    found: list[str] = []
    if len(verdicts) != len(documents):
        return [f"{len(verdicts)} verdicts of {len(documents)} documents"]
    for document, errors in zip(documents, verdicts):
        issues = list(texts(validator.iter_errors(json.loads(document))))
        if errors and not issues:
            # What the loader alone can know; each error has to be listed.
            for error in errors:
                entry = next((entry for pattern, entry in loader if pattern.search(error)), None)
                if entry is None:
                    found.append(f"the loader alone refuses: {error}\n    {document}")
                    break
                used.add(entry["error"])
        elif issues and not errors:
            found.append(f"the schema alone refuses: {'; '.join(issues[:3])}\n    {document}")
    if are_all:
        found += [f"is listed and does not happen: {entry['error']}" for _, entry in loader if entry["error"] not in used]
    return found


def main() -> int:
    command, kind = sys.argv[1:3]
    step = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    documents = variants(kind, step)
    if command == "documents":
        print("\n".join(documents))
        return 0
    found = compare(kind, [json.loads(line) for line in sys.stdin if line.strip()], documents, step == 1)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
