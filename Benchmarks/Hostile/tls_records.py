# SPDX-License-Identifier: Apache-2.0
"""Records of TLS 1.3 behind the handshake, one by one: what OpenSSL's own interface does not send."""
from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import hmac
import os
import socket
import ssl
import tempfile

HANDSHAKE, APPLICATION_DATA = 22, 23
NEW_SESSION_TICKET, KEY_UPDATE = 4, 24
TAG, NONCE = 16, 12
_GET_TAG = 0x10
_crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
for _name in ("EVP_aes_128_gcm", "EVP_aes_256_gcm", "EVP_CIPHER_CTX_new"):
    getattr(_crypto, _name).restype = ctypes.c_void_p
# The length of the key, the digest, and the cipher of OpenSSL.
SUITES = {"TLS_AES_128_GCM_SHA256": (16, hashlib.sha256, _crypto.EVP_aes_128_gcm),
          "TLS_AES_256_GCM_SHA384": (32, hashlib.sha384, _crypto.EVP_aes_256_gcm)}


class Writer:
    """Writes the records of one side of a connection (RFC 8446, section 5.2) whose handshake another TLS has made.

    - secret: the side's first application traffic secret.
    """

    def __init__(self, suite: str, secret: bytes) -> None:
        self.key_length, self.digest, self.algorithm = SUITES[suite]
        self.cipher = ctypes.c_void_p(_crypto.EVP_CIPHER_CTX_new())
        self._begin(secret)

    def _begin(self, secret: bytes) -> None:
        self.secret, self.number = secret, 0
        self.key, self.nonce = self._expand("key", self.key_length), int.from_bytes(self._expand("iv", NONCE), "big")

    def _expand(self, label: str, length: int) -> bytes:
        # HKDF-Expand-Label (RFC 8446, section 7.1), of at most one block.
        name = b"tls13 " + label.encode()
        info = length.to_bytes(2, "big") + bytes((len(name),)) + name + b"\0"
        return hmac.digest(self.secret, info + b"\1", self.digest)[:length]

    def record(self, kind: int, content: bytes) -> bytes:
        inner = content + bytes((kind,))
        head = bytes((APPLICATION_DATA, 3, 3)) + (len(inner) + TAG).to_bytes(2, "big")
        nonce = (self.nonce ^ self.number).to_bytes(NONCE, "big")
        self.number += 1
        sealed, tag, count = ctypes.create_string_buffer(len(inner)), ctypes.create_string_buffer(TAG), ctypes.c_int()
        _crypto.EVP_EncryptInit_ex(self.cipher, ctypes.c_void_p(self.algorithm()), None, self.key, nonce)
        _crypto.EVP_EncryptUpdate(self.cipher, None, ctypes.byref(count), head, len(head))
        _crypto.EVP_EncryptUpdate(self.cipher, sealed, ctypes.byref(count), inner, len(inner))
        _crypto.EVP_EncryptFinal_ex(self.cipher, ctypes.create_string_buffer(TAG), ctypes.byref(count))
        _crypto.EVP_CIPHER_CTX_ctrl(self.cipher, _GET_TAG, TAG, tag)
        return head + sealed.raw + tag.raw

    def key_update(self, wants_another: bool = False) -> bytes:
        """The message, behind which the keys are others. It stands at the end of its record."""
        made = self.record(HANDSHAKE, bytes((KEY_UPDATE, 0, 0, 1, wants_another)))
        self._begin(self._expand("traffic upd", self.digest().digest_size))
        return made

    def tickets(self, count: int) -> bytes:
        """As many tickets as one record holds, at most `count`: the shortest that there can be."""
        body = (3600).to_bytes(4, "big") + bytes(4) + b"\1\0" + b"\0\1x" + b"\0\0"
        one = bytes((NEW_SESSION_TICKET,)) + len(body).to_bytes(3, "big") + body
        return self.record(HANDSHAKE, one * min(count, 16384 // len(one)))

    def empty(self) -> bytes:
        return self.record(APPLICATION_DATA, b"")


def handshake(context: ssl.SSLContext, connection: socket.socket, **settings) -> tuple[socket.socket, Writer]:
    """Makes the handshake with Python's TLS; what comes then is written by hand. Nothing may have been written before.

    - context: for TLS 1.3; that of a server is without tickets.
    """
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    is_server = settings.get("server_side", False)
    with tempfile.TemporaryDirectory() as folder:
        context.keylog_filename = os.path.join(folder, "keys")
        tls = context.wrap_socket(connection, **settings)
        with open(context.keylog_filename) as file:
            secrets = {fields[0]: bytes.fromhex(fields[2]) for fields in map(str.split, file) if len(fields) == 3}
    return tls, Writer(tls.cipher()[0], secrets["SERVER_TRAFFIC_SECRET_0" if is_server else "CLIENT_TRAFFIC_SECRET_0"])
