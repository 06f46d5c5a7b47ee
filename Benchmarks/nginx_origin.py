# SPDX-License-Identifier: Apache-2.0
"""nginx as an origin with files, over HTTP/2 and TLS."""
from __future__ import annotations

import os
import shutil
from pathlib import Path

from origin import Certificates
from processes import BenchError, Server, free_port

CONFIGURATION = """\
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
    access_log {access_log};
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    ssl_certificate {certificates}/leaf.pem;
    ssl_certificate_key {certificates}/leaf.key;
    {directives}
    server {{ listen 127.0.0.1:{port} ssl http2; root {files}; }}
}}
"""


def start_nginx(folder: Path, files: Path, certificates: Certificates, directives: list[str],
                access_log: str = "off") -> tuple[Server, int]:
    """nginx and its port, when it listens. `folder` exists, and gets its configuration and log."""
    nginx = shutil.which("nginx")
    if nginx is None:
        raise BenchError("nginx is not installed: apt-get install nginx")
    port = free_port()
    (folder / "nginx.conf").write_text(CONFIGURATION.format(
        user="user root;" if os.geteuid() == 0 else "", folder=folder, certificates=certificates.folder,
        directives="\n    ".join(directives), port=port, files=files, access_log=access_log))
    server = Server("nginx", [nginx, "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")],
                    folder / "error.log")
    server.wait_until_listening([port])
    return server, port
