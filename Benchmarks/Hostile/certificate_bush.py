# SPDX-License-Identifier: Apache-2.0
"""A server whose certificates all have one name and one shape of key, beside a store with more of them: any could have signed any
other, and nothing but their signatures says which has."""
from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path

import tls_bytes
from origin import OTHER_HOST
from stage import Peer, Stage

SENT, STORED, NAME = 15, 85, "bush"

# P-384 (FIPS 186-4): of the usual curves the one that costs OpenSSL most.
PRIME = (1 << 384) - (1 << 128) - (1 << 96) + (1 << 32) - 1
ORDER = int("ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973", 16)
GENERATOR = (int("aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7", 16),
             int("3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f", 16))
P384 = tls_bytes.identifier("1.3.132.0.34")
ECDSA_SHA384 = tls_bytes.sequence(tls_bytes.identifier("1.2.840.10045.4.3.3"))


@functools.cache
def points() -> list[tuple[int, int]]:
    """The public keys of the private keys 1, 2, 3 …: each is the one before it and the generator."""
    found = [GENERATOR]
    while len(found) < SENT + STORED + 1:
        (x, y), (other_x, other_y) = found[-1], GENERATOR
        slope = ((3 * x * x - 3) * pow(2 * y, -1, PRIME) if x == other_x else (other_y - y) * pow(other_x - x, -1, PRIME)) % PRIME
        sum_x = (slope * slope - x - other_x) % PRIME
        found.append((sum_x, (slope * (x - sum_x) - y) % PRIME))
    return found


def key(number: int) -> bytes:
    x, y = points()[number]
    point = b"\4" + x.to_bytes(48, "big") + y.to_bytes(48, "big")
    return tls_bytes.sequence(tls_bytes.sequence(tls_bytes.identifier(tls_bytes.EC_KEY), P384), tls_bytes.bits(point))


def sign(number: int, body: bytes) -> bytes:
    """ECDSA, with the key itself for the random number: it is no secret."""
    r = points()[number][0] % ORDER
    digest = int.from_bytes(hashlib.sha384(body).digest(), "big")
    s = pow(number + 1, -1, ORDER) * (digest + r * (number + 1)) % ORDER
    return tls_bytes.sequence(tls_bytes.integer(r), tls_bytes.integer(s))


@functools.cache
def authorities() -> list[bytes]:
    """Each is signed by the next one, the last one by itself, and the others have the next one's name, too."""
    last = SENT + STORED - 1
    return [tls_bytes.certificate(NAME, NAME, key(number), is_authority=True, algorithm=ECDSA_SHA384,
                                  sign=functools.partial(sign, min(number + 1, last))) for number in range(last + 1)]


class Bush(Peer):
    name = "bush"
    title = f"2: {SENT} certificates of one name beside {STORED} known ones: who has signed the server's?"

    def settings(self, stage: Stage) -> dict:
        self.shown = tls_bytes.certificate_message([tls_bytes.certificate(OTHER_HOST, NAME, key(0))] + authorities()[:SENT])
        place = SENT + STORED // 2
        return {"trustAnchors": {"system": False, "files": [
                    str(stage.certificates.ca), _write(stage.folder / "anchors.pem", authorities()[place:])]},
                "intermediates": [_write(stage.folder / "intermediates.pem", authorities()[SENT:place])],
                "hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}"}}}

    def _serve(self, connection) -> None:
        hello = tls_bytes.read_message(connection)
        connection.sendall(tls_bytes.records(tls_bytes.server_hello(hello) + self.shown))
        connection.recv(4096)

    def attack(self, stage: Stage) -> None:
        def ask() -> None:
            while stage.goes_on:
                response = stage.ask(f"http://{OTHER_HOST}/")
                if b"more paths than are tried" not in response and stage.goes_on and stage.is_alive:
                    raise AssertionError(f"the paths were not searched: {response[:600]!r}")
        stage.at_once(4, ask)


def _write(path: Path, certificates: list[bytes]) -> str:
    path.write_text("".join(f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(one).decode()}-----END CERTIFICATE-----\n"
                            for one in certificates))
    return str(path)


PEERS = [Bush()]
