# SPDX-License-Identifier: Apache-2.0
"""Key exchanges over large finite fields, which a peer asks for at no cost of its own."""
from __future__ import annotations

import base64
import os
import socket
import ssl
import subprocess

import tls_bytes
from origin import KEPT_HOST, OTHER_HOST
from stage import Peer, Stage

# A hello's share in ffdhe8192: any number below the prime.
SHARE = b"\x7f" + os.urandom(1023)
DHE_HOST = "dhe.bench.test"


def _hello(name: str) -> bytes:
    return tls_bytes.records(tls_bytes.client_hello(name, tls_bytes.FFDHE8192, SHARE, versions=(0x0304,)))


class Listener(Peer):
    name = "ffdhe-client"
    title = "3: forty hellos with an ffdhe8192 share, TLS listener"

    def settings(self, stage: Stage) -> dict:
        folder = stage.certificates.folder
        return {"listeners": [{"address": "127.0.0.1:0", "tls": {"certificate": str(folder / "leaf.pem"),
                                                                "key": str(folder / "leaf.key")}}]}

    def attack(self, stage: Stage) -> None:
        def greet() -> None:
            for _ in range(2 if stage.is_short else 10):
                connection = stage.connect(1)
                connection.sendall(_hello("bench.test"))
                connection.recv(1)
                connection.close()
        stage.at_once(4, greet)


class Intercepted(Peer):
    name = "ffdhe-intercept"
    title = "3: the same hello inside of an intercepted CONNECT"

    def settings(self, stage: Stage) -> dict:
        folder = stage.folder / "ca"
        folder.mkdir()
        subprocess.run([stage.binary, "ca", "init", "--dir", str(folder), OTHER_HOST], check=True, stdout=subprocess.DEVNULL)
        return {"interception": {"certificate": str(folder / "pinproxy-ca.pem"), "key": str(folder / "pinproxy-ca.key")},
                "hosts": {OTHER_HOST: {"connect": "intercept", "resolve": f"127.0.0.1:{stage.origin.ports[KEPT_HOST]}"}}}

    def attack(self, stage: Stage) -> None:
        def greet() -> None:
            for _ in range(2 if stage.is_short else 10):
                connection = stage.connect()
                connection.sendall(f"CONNECT {OTHER_HOST}:443 HTTP/1.1\r\nHost: {OTHER_HOST}:443\r\n\r\n".encode())
                if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
                    raise ConnectionError("no tunnel")
                connection.sendall(_hello(OTHER_HOST))
                connection.recv(1)
                connection.close()
        stage.at_once(4, greet)


class Retry(Peer):
    name = "ffdhe-server"
    title = "3: HelloRetryRequest for ffdhe8192 by a server that is not trusted"

    def settings(self, stage: Stage) -> dict:
        return {"hosts": {OTHER_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}"}}}

    def _serve(self, connection) -> None:
        hello = tls_bytes.read_message(connection)
        connection.sendall(tls_bytes.records(tls_bytes.server_hello_13(hello, tls_bytes.FFDHE8192, None)))
        hello = tls_bytes.read_message(connection)
        connection.sendall(tls_bytes.records(tls_bytes.server_hello_13(hello, tls_bytes.FFDHE8192, SHARE)))
        connection.recv(4096)

    def attack(self, stage: Stage) -> None:
        def ask() -> None:
            for _ in range(1 if stage.is_short else 6):
                stage.ask(f"http://{OTHER_HOST}/")
        stage.at_once(3, ask)


class LargeModulus(Peer):
    name = "dhe"
    title = "3: accepted server with TLS 1.2, DHE with a modulus of 10,000 bits"

    def settings(self, stage: Stage) -> dict:
        folder, certificates = stage.folder / "dhe", stage.certificates.folder
        folder.mkdir()

        def openssl(*arguments: str) -> None:
            subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)

        # No suite has DHE with the bench's ECDSA key.
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", str(folder / "rsa.key"), "-out", str(folder / "rsa.csr"),
                "-subj", f"/CN={DHE_HOST}")
        (folder / "rsa.ext").write_text(f"subjectAltName=DNS:{DHE_HOST}\n")
        openssl("x509", "-req", "-in", str(folder / "rsa.csr"), "-CA", str(certificates / "ca.pem"), "-CAkey",
                str(certificates / "ca.key"), "-set_serial", "4711", "-days", "2", "-extfile", str(folder / "rsa.ext"),
                "-out", str(folder / "rsa.pem"))
        # Nobody asks whether it is a prime.
        modulus = (1 << 9999) | int.from_bytes(os.urandom(1240), "big") | 1
        text = base64.encodebytes(tls_bytes.sequence(tls_bytes.integer(modulus), tls_bytes.integer(2))).decode()
        (folder / "dh.pem").write_text(f"-----BEGIN DH PARAMETERS-----\n{text}-----END DH PARAMETERS-----\n")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "rsa.pem", folder / "rsa.key")
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_ciphers("DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384")
        self.context.load_dh_params(folder / "dh.pem")
        return {"hosts": {DHE_HOST: {"resolve": f"127.0.0.1:{stage.serve(self._serve)}", "upgrade": True}}}

    def _serve(self, connection: socket.socket) -> None:
        with self.context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(4096)
            tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def attack(self, stage: Stage) -> None:
        for _ in range(1 if stage.is_short else 3):
            stage.ask(f"http://{DHE_HOST}/")


PEERS = [Listener(), Intercepted(), Retry(), LargeModulus()]
