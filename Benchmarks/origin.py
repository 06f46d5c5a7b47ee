# SPDX-License-Identifier: Apache-2.0
"""The origin: nginx with TLS 1.3 and a P-256 certificate, made afresh for each run."""
from __future__ import annotations

import base64
import hashlib
import os
import subprocess
from pathlib import Path

from processes import BenchError, Server, free_port

# Two names, two ports: connections to the first are kept, the second closes after each answer and resumes no session.
KEPT_HOST = "bench.test"
CLOSING_HOST = "once.bench.test"
# A third name in the certificate, for whoever wants it.
OTHER_HOST = "other.bench.test"
# A server that takes HTTP/2, too; and one whose certificate does not have its name.
H2_HOST = "h2.bench.test"
MISNAMED_HOST = "misnamed.bench.test"
# Any number of hosts below this one.
MANY_HOSTS = "many.test"
# Servers of others for files, over HTTP/2.
FILE_HOSTS = ("nginx.bench.test", "nghttpd.bench.test")
SIZES = {"1k": 1024, "100k": 100 * 1024, "2m": 2 << 20, "1g": 1024 ** 3}

CONFIGURATION = """\
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    large_client_header_buffers 4 64k;
    default_type application/octet-stream;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    ssl_certificate {certificates}/leaf.pem;
    ssl_certificate_key {certificates}/leaf.key;
    ssl_protocols TLSv1.3;
    # One cipher and one group for all: the peers' TLS libraries have different favourites.
    ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384;
    ssl_ecdh_curve X25519;
    # No session can be resumed. No tickets either: Squid with GnuTLS takes one for a read error.
    ssl_session_cache off;
    ssl_session_tickets off;
    ssl_conf_command NumTickets 0;
    server {{
        listen 127.0.0.1:{kept_port} ssl backlog=4096;
        server_name {kept_host};
        keepalive_timeout 600s;
        keepalive_requests 1000000000;
        root {folder}/files;
        location = /probe {{ return 200 "{probe}"; }}
    }}
    server {{
        listen 127.0.0.1:{plain_port} backlog=4096;
        root {folder}/files;
    }}
    server {{
        listen 127.0.0.1:{h2_port} ssl http2 backlog=4096;
        server_name {h2_host};
        keepalive_timeout 600s;
        keepalive_requests 1000000000;
        root {folder}/files;
        location = /probe {{ return 200 "{probe}"; }}
    }}
    server {{
        listen 127.0.0.1:{misnamed_port} ssl backlog=4096;
        server_name {misnamed_host};
        root {folder}/files;
    }}
    server {{
        listen 127.0.0.1:{closing_port} ssl backlog=4096;
        server_name {closing_host};
        keepalive_timeout 0;
        root {folder}/files;
        location = /probe {{ return 200 "{probe}"; }}
    }}
}}
"""
# Seen by the harness before each measurement: whether the connection is new, resumed, and what was agreed.
PROBE = "$connection_requests $ssl_session_reused $ssl_protocol $ssl_cipher $ssl_curve $server_protocol"


def _openssl(*arguments: str, data: bytes | None = None) -> bytes:
    done = subprocess.run(["openssl", *arguments], input=data, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise BenchError(f"openssl {arguments[0]} failed:\n{done.stderr.decode(errors='replace')}")
    return done.stdout


class Certificates:
    """A CA and a leaf for all names, each with a P-256 key, good for two days."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.ca = folder / "ca.pem"
        leaf, request, extensions = folder / "leaf.pem", folder / "leaf.csr", folder / "leaf.ext"
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        _openssl("req", "-x509", *new_key, "-keyout", str(folder / "ca.key"), "-out", str(self.ca), "-days", "2",
                 "-subj", "/CN=pinproxy bench CA", "-addext", "basicConstraints=critical,CA:TRUE",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        _openssl("req", *new_key, "-keyout", str(folder / "leaf.key"), "-out", str(request),
                 "-subj", f"/CN={KEPT_HOST}")
        names = (KEPT_HOST, CLOSING_HOST, OTHER_HOST, H2_HOST, f"*.{MANY_HOSTS}", *FILE_HOSTS)
        extensions.write_text(
            f"subjectAltName={','.join(f'DNS:{name}' for name in names)}\nbasicConstraints=critical,CA:FALSE\n"
            "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
            "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
        _openssl("x509", "-req", "-in", str(request), "-CA", str(self.ca), "-CAkey", str(folder / "ca.key"),
                 "-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", str(leaf))
        public_key = _openssl("x509", "-in", str(leaf), "-noout", "-pubkey")
        spki = _openssl("pkey", "-pubin", "-outform", "DER", data=public_key)
        self.leaf_pin = base64.b64encode(hashlib.sha256(spki).digest()).decode()
        self.backup_pin = base64.b64encode(hashlib.sha256(b"a backup key that nobody holds").digest()).decode()


class Origin:
    def __init__(self, nginx: str, folder: Path) -> None:
        folder.mkdir()
        self.files = folder / "files"
        self.files.mkdir()
        for name, size in SIZES.items():
            with open(self.files / name, "wb") as file:
                # Sparse above a megabyte: no gigabyte is written to the disk.
                file.truncate(size) if size > 1 << 20 else file.write(os.urandom(size))
        self.certificates = Certificates(folder / "certificates")
        self.ports = {host: free_port() for host in (KEPT_HOST, CLOSING_HOST, H2_HOST, MISNAMED_HOST)}
        self.plain_port = free_port()
        """without TLS, under any name"""
        configuration = folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(
            user="user root;" if os.geteuid() == 0 else "", folder=folder, certificates=self.certificates.folder,
            kept_port=self.ports[KEPT_HOST], kept_host=KEPT_HOST, closing_port=self.ports[CLOSING_HOST],
            closing_host=CLOSING_HOST, h2_port=self.ports[H2_HOST], h2_host=H2_HOST,
            misnamed_port=self.ports[MISNAMED_HOST], misnamed_host=MISNAMED_HOST,
            plain_port=self.plain_port, probe=PROBE))
        self.server = Server("the origin (nginx)", [nginx, "-e", str(folder / "error.log"), "-c", str(configuration)],
                             folder / "error.log")

    def wait_until_ready(self) -> None:
        self.server.wait_until_listening(list(self.ports.values()))

    def read_large_file(self) -> None:
        """Brings it into the page cache, which the first peer would otherwise pay for."""
        buffer = bytearray(1 << 20)
        with open(self.files / "1g", "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
