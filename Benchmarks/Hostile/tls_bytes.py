# SPDX-License-Identifier: Apache-2.0
"""TLS as bytes: what a peer sends in the clear before any key is agreed, well-formed but for what a test wants otherwise.

OpenSSL decodes certificates, key shares and parameters of a peer while it reads these messages, before anything is verified.
"""
from __future__ import annotations

import os
import random
import struct
from typing import Callable

ALERT, HANDSHAKE = 21, 22
CLIENT_HELLO, SERVER_HELLO, CERTIFICATE, CERTIFICATE_REQUEST, SERVER_DONE, CLIENT_KEY = 1, 2, 11, 13, 14, 16
RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
FFDHE8192, X25519 = 0x0104, 0x001D


def vector(width: int, content: bytes) -> bytes:
    return len(content).to_bytes(width, "big") + content


def message(kind: int, content: bytes) -> bytes:
    return bytes((kind,)) + vector(3, content)


def records(content: bytes, kind: int = HANDSHAKE, size: int = 16384) -> bytes:
    return b"".join(bytes((kind, 3, 3)) + vector(2, content[place:place + size]) for place in range(0, len(content), size))


def extension(number: int, content: bytes) -> bytes:
    return struct.pack(">H", number) + vector(2, content)


# Hellos


def client_hello(name: str, group: int = X25519, share: bytes | None = None, versions: tuple[int, ...] = (0x0304, 0x0303),
                 groups: tuple[int, ...] = ()) -> bytes:
    """A hello with one key share; without TLS 1.3 there is none."""
    suites = struct.pack(">8H", 0x1301, 0x1302, 0xC02B, 0xC02C, 0xC02F, 0xC030, 0x009E, 0x009F)
    extensions = [
        extension(0, vector(2, b"\0" + vector(2, name.encode()))),
        extension(10, vector(2, struct.pack(f">{len(groups or (group,))}H", *(groups or (group,))))),
        extension(11, b"\1\0"),
        extension(13, vector(2, struct.pack(">7H", 0x0403, 0x0503, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501))),
        extension(43, vector(1, struct.pack(f">{len(versions)}H", *versions)))]
    if 0x0304 in versions:
        content = share if share is not None else os.urandom(32)
        extensions.append(extension(51, vector(2, struct.pack(">H", group) + vector(2, content))))
    body = (b"\3\3" + os.urandom(32) + vector(1, os.urandom(32)) + vector(2, suites) + b"\1\0"
            + vector(2, b"".join(extensions)))
    return message(CLIENT_HELLO, body)


def session_of(hello: bytes) -> bytes:
    """The session that a client's hello names: a server of TLS 1.3 has to repeat it."""
    return hello[39:39 + hello[38]]


def server_hello(hello: bytes, suite: int = 0xC02B) -> bytes:
    """The hello of a server that has only TLS 1.2."""
    body = b"\3\3" + os.urandom(32) + vector(1, os.urandom(32)) + struct.pack(">H", suite) + b"\0"
    # extended_master_secret, renegotiation_info and the forms of points.
    return message(SERVER_HELLO, body + vector(2, extension(23, b"") + extension(0xFF01, b"\0") + extension(11, b"\1\0")))


def server_hello_13(hello: bytes, group: int, share: bytes | None) -> bytes:
    """The hello of a server with TLS 1.3, without a share a HelloRetryRequest for that group."""
    is_retry = share is None
    shared = struct.pack(">H", group) + (b"" if share is None else vector(2, share))
    body = (b"\3\3" + (RETRY_RANDOM if is_retry else os.urandom(32)) + vector(1, session_of(hello)) + b"\x13\x01\0"
            + vector(2, extension(43, b"\3\4") + extension(51, shared)))
    return message(SERVER_HELLO, body)


def certificate_message(certificates: list[bytes]) -> bytes:
    return message(CERTIFICATE, vector(3, b"".join(vector(3, one) for one in certificates)))


def read_message(connection) -> bytes:
    """The next whole handshake message of a peer that speaks in the clear, as a rule its hello."""
    content = b""
    while len(content) < 4 or len(content) < 4 + int.from_bytes(content[1:4], "big"):
        head = _exactly(connection, 5)
        if head[0] == ALERT:
            raise ConnectionError("an alert")
        rest = _exactly(connection, int.from_bytes(head[3:5], "big"))
        if head[0] == HANDSHAKE:
            content += rest
    return content[:4 + int.from_bytes(content[1:4], "big")]


def _exactly(connection, count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = connection.recv(count - len(content))
        if not piece:
            raise ConnectionError("the end")
        content += piece
    return content


# DER


def der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    if len(content) < 128:
        return bytes((tag, len(content))) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes((tag, 128 | len(length))) + length + content


def sequence(*contents: bytes) -> bytes:
    return der(0x30, *contents)


def integer(value: int) -> bytes:
    return der(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def identifier(text: str) -> bytes:
    first, second, *rest = (int(part) for part in text.split("."))
    content = bytes((first * 40 + second,))
    for part in rest:
        piece = bytes((part & 127,))
        while part := part >> 7:
            piece = bytes((part & 127 | 128,)) + piece
        content += piece
    return der(6, content)


def bits(content: bytes) -> bytes:
    return der(3, b"\0", content)


def name(text: str) -> bytes:
    return sequence(der(0x31, sequence(identifier("2.5.4.3"), der(12, text.encode()))))


ECDSA_SHA256 = sequence(identifier("1.2.840.10045.4.3.2"))
EC_KEY = "1.2.840.10045.2.1"
P256 = identifier("1.2.840.10045.3.1.7")
# The generator of P-256: a key whose private half is 1.
P256_POINT = bytes.fromhex("046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
                           "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")
P256_KEY = sequence(sequence(identifier(EC_KEY), P256), bits(P256_POINT))


def certificate(subject: str, issuer: str, key: bytes = P256_KEY, not_before: bytes | None = None,
                not_after: bytes | None = None, is_authority: bool = False, algorithm: bytes = ECDSA_SHA256,
                sign: Callable[[bytes], bytes] | None = None) -> bytes:
    """One whose signature is junk, unless somebody signs: it is looked at when all has been decoded.

    - key: a SubjectPublicKeyInfo.
    - not_before, not_after: DER of a time, or of what is none.
    - sign: gives the signature of the part that is signed, by `algorithm`.
    """
    dates = sequence(not_before or der(0x17, b"250101000000Z"), not_after or der(0x17, b"491231235959Z"))
    if is_authority:
        # basicConstraints, critical.
        extension = sequence(identifier("2.5.29.19"), der(1, b"\xff"), der(4, sequence(der(1, b"\xff"))))
    else:
        extension = sequence(identifier("2.5.29.17"), der(4, sequence(der(0x82, subject.encode()))))
    body = sequence(der(0xA0, integer(2)), integer(random.getrandbits(64)), algorithm, name(issuer), dates,
                    name(subject), key, der(0xA3, sequence(extension)))
    signature = sign(body) if sign else sequence(integer(random.getrandbits(250)), integer(random.getrandbits(250)))
    return sequence(body, algorithm, bits(signature))


def chain(subject: str, count: int, key: bytes) -> list[bytes]:
    """Certificates of which each is issued by the next one."""
    names = [subject] + [f"hostile {place}" for place in range(1, count + 1)]
    return [certificate(names[place], names[place + 1], key) for place in range(count)]


# Elliptic curves with parameters of their own


def costly_prime() -> int:
    """A prime of at most 661 bits (OpenSSL refuses more) that is 1 above a multiple of 2^640: the roots that OpenSSL takes of
    compressed points cost the more the higher that power is."""
    for factor in range(3, 1 << 20, 2):
        candidate = (factor << 640) + 1
        if all(candidate % small for small in (3, 5, 7, 11, 13, 17, 19, 23)) and all(
                pow(base, candidate - 1, candidate) == 1 for base in (2, 3, 5)):
            return candidate
    raise ValueError("there is no such prime")


def explicit_key() -> bytes:
    """A SubjectPublicKeyInfo with explicit parameters, generator and key as compressed points."""
    prime = costly_prime()
    width = (prime.bit_length() + 7) // 8
    constant = random.randrange(2, prime)

    def point() -> bytes:
        while True:
            x = random.randrange(2, prime)
            if pow(x ** 3 + constant, (prime - 1) // 2, prime) == 1:
                return b"\2" + x.to_bytes(width, "big")

    generator = point()
    order = (1 << (prime.bit_length() - 1)) | random.getrandbits(64) | 1
    field = sequence(identifier("1.2.840.10045.1.1"), integer(prime))
    curve = sequence(der(4, (0).to_bytes(width, "big")), der(4, constant.to_bytes(width, "big")))
    parameters = sequence(integer(1), field, curve, der(4, generator), integer(order))
    return sequence(sequence(identifier(EC_KEY), parameters), bits(point()))
