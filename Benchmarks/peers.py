"""The proxies: how each is configured and started. A new one is a subclass of `Peer`, named in `PEERS`."""
from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import time
from pathlib import Path

from origin import CLOSING_HOST, KEPT_HOST, Origin
from processes import BenchError, Server, free_port

HOSTS = (KEPT_HOST, CLOSING_HOST)
UPSTREAM_IDLE_CONNECTIONS = 64


class Peer:
    """A proxy that verifies the origin's certificate, with one worker and an access log in a file."""

    name = ""
    version_arguments = ["-v"]

    def __init__(self, binary: str, origin: Origin, ca: Path) -> None:
        self.binary = binary
        self.origin = origin
        self.ca = ca
        self.ports: dict[str, int] = {}
        self.caches = False
        self.server: Server | None = None

    @classmethod
    def find(cls) -> str | None:
        # The daemons live in sbin, which a person's PATH may lack.
        return shutil.which(cls.name, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin")

    @classmethod
    def version(cls, binary: str) -> str:
        done = subprocess.run([binary, *cls.version_arguments], capture_output=True, text=True, timeout=10)
        lines = (done.stdout + done.stderr).strip().splitlines()
        return lines[0] if lines else "unknown"

    def target(self, host: str, path: str) -> str:
        """The request target that makes this proxy fetch `path` from `host`."""
        return path

    def start(self, folder: Path, clients: int, caches: bool = False) -> None:
        """Starts in the new folder `folder`, ready for `clients` connections at a time; `caches`: every answer is kept
        for an hour, whatever it says."""
        folder.mkdir()
        self.caches = caches
        self.ports = {host: free_port() for host in HOSTS}
        self.server = self.launch(folder, clients)
        self.server.wait_until_listening(sorted(set(self.ports.values())))

    def launch(self, folder: Path, clients: int) -> Server:
        raise NotImplementedError

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    @property
    def running(self) -> Server:
        if self.server is None:
            raise BenchError(f"{self.name} does not run")
        return self.server


class Nginx(Peer):
    name = "nginx"

    def launch(self, folder: Path, clients: int) -> Server:
        servers = "".join(f"""
    upstream origin-{port} {{
        server 127.0.0.1:{self.origin.ports[host]};
        {f"keepalive {UPSTREAM_IDLE_CONNECTIONS}; keepalive_requests 1000000000;" if host == KEPT_HOST else ""}
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass https://origin-{port};
            proxy_http_version 1.1;
            proxy_set_header Host {host};
            proxy_set_header Connection "{"" if host == KEPT_HOST else "close"}";
            proxy_ssl_name {host};
            {"proxy_cache kept; proxy_cache_valid 200 1h;" if self.caches else ""}
        }}
    }}""" for host, port in self.ports.items())
        configuration = folder / "nginx.conf"
        configuration.write_text(f"""\
{"user root;" if os.geteuid() == 0 else ""}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
worker_rlimit_nofile {2 * clients + 1024};
# An eighth more than needed: below a sixteenth of free ones nginx closes idle clients.
events {{ worker_connections {clients * 9 // 8 + 512}; }}
http {{
    access_log {folder}/access.log combined buffer=64k flush=1s;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    tcp_nodelay on;
    # Streams only: a body never goes through a temporary file.
    {f"proxy_cache_path {folder}/cache levels=1:2 keys_zone=kept:10m max_size=1g;" if self.caches
     else "proxy_max_temp_file_size 0;"}
    proxy_ssl_verify on;
    proxy_ssl_verify_depth 2;
    proxy_ssl_trusted_certificate {self.ca};
    proxy_ssl_server_name on;
    # nginx 1.22 sets TCP_NODELAY towards the origin only together with this; without it 40 ms pass at times.
    proxy_ssl_session_reuse on;
    proxy_ssl_protocols TLSv1.2 TLSv1.3;
{servers}
}}
""")
        return Server(self.name, [self.binary, "-e", str(folder / "error.log"), "-c", str(configuration)],
                      folder / "error.log")


class HAProxy(Peer):
    name = "haproxy"

    def launch(self, folder: Path, clients: int) -> Server:
        sections = "".join(f"""
listen {host}
    bind 127.0.0.1:{port} backlog 4096
    http-request set-header Host {host}
    http-reuse {"always" if host == KEPT_HOST else "never"}
    {"http-request cache-use kept" if self.caches else ""}
    {"http-response set-header Cache-Control max-age=3600" if self.caches else ""}
    {"http-response cache-store kept" if self.caches else ""}
    {"" if host == KEPT_HOST else "option http-server-close"}
    server origin 127.0.0.1:{self.origin.ports[host]} ssl verify required ca-file {self.ca} """ + (
            f"sni str({host}) verifyhost {host} alpn http/1.1 pool-max-conn {UPSTREAM_IDLE_CONNECTIONS} pool-low-conn 0"
            f"{'' if host == KEPT_HOST else ' no-ssl-reuse'}\n") for host, port in self.ports.items())
        configuration = folder / "haproxy.cfg"
        # The log goes to standard output, which is a file.
        configuration.write_text(f"""\
global
    nbthread 1
    maxconn {clients + 512}
    # It reckons with two descriptors a client; where the limit is lower, a warning has to do.
    no strict-limits
    log stdout format raw local0 info
defaults
    mode http
    log global
    option httplog
    timeout connect 10s
    timeout client 600s
    timeout http-keep-alive 600s
    timeout http-request 60s
    timeout server 600s
    maxconn {clients + 512}
{"cache kept" if self.caches else ""}
{"    total-max-size 64" if self.caches else ""}
{"    max-object-size 1000000" if self.caches else ""}
{"    max-age 3600" if self.caches else ""}
{sections}
""")
        return Server(self.name, [self.binary, "-db", "-f", str(configuration)], folder / "error.log",
                      folder / "access.log")


class Squid(Peer):
    name = "squid"

    @classmethod
    def version(cls, binary: str) -> str:
        first = super().version(binary)
        linked = subprocess.run(["ldd", binary], capture_output=True, text=True, timeout=10).stdout
        return first + (" (GnuTLS)" if "libgnutls" in linked else " (OpenSSL)" if "libssl" in linked else "")

    def launch(self, folder: Path, clients: int) -> Server:
        lines = []
        for host, port in self.ports.items():
            lines += [
                f"http_port 127.0.0.1:{port} accel defaultsite={host} name={host}",
                f"acl to-{host} myportname {host}",
                f"cache_peer 127.0.0.1 parent {self.origin.ports[host]} 0 no-query no-digest no-netdb-exchange "
                f"originserver tls tls-cafile={self.ca} ssldomain={host} forceddomain={host} "
                f"name=origin-{host} connection-auth=off",
                f"cache_peer_access origin-{host} allow to-{host}",
                f"cache_peer_access origin-{host} deny all",
            ]
        # Not `cache deny all`: with it Squid 5.7 keeps some 25 KB of each answer.
        kept = """\
cache_mem 64 MB
maximum_object_size_in_memory 1 MB
refresh_pattern . 60 100% 60 override-expire override-lastmod ignore-reload
""" if self.caches else "store_miss deny all\ncache_mem 0 MB\n"
        configuration = folder / "squid.conf"
        configuration.write_text("\n".join(lines) + f"""
http_access allow all
never_direct allow all
{kept}access_log stdio:{folder}/access.log
buffered_logs on
cache_log {folder}/error.log
pid_filename {folder}/squid.pid
coredump_dir {folder}
mime_table /usr/share/squid/mime.conf
pinger_enable off
shutdown_lifetime 0 seconds
client_idle_pconn_timeout 10 minutes
server_idle_pconn_timeout 10 minutes
max_filedescriptors {2 * clients + 1024}
visible_hostname bench
""")
        if os.geteuid() == 0:
            # Squid started by root gives its rights up and must still be able to write its logs.
            account = pwd.getpwnam("proxy")
            os.chown(folder, account.pw_uid, account.pw_gid)
        return Server(self.name, [self.binary, "-N", "-f", str(configuration)], folder / "start.log")


class Pinproxy(Peer):
    name = "pinproxy"
    version_arguments = ["version"]

    def target(self, host: str, path: str) -> str:
        return f"http://{host}{path}"

    def launch(self, folder: Path, clients: int) -> Server:
        certificates = self.origin.certificates
        (folder / "pins").mkdir()
        domain = {"pins": [{"spki-sha256": certificates.leaf_pin},
                           {"spki-sha256": certificates.backup_pin, "backup": True}]}
        (folder / "pins" / "bench.json").write_text(json.dumps(
            {"version": 1, "pinnedDomains": {host: domain for host in HOSTS}}, indent=2))
        cached = {"cache": {},
                  "defaults": {"timeouts": {"idle": "10m"}, "cache": {"rules": [{"then": "store", "ttl": "1h"}]}}}
        (folder / "config.json").write_text(json.dumps({
            "version": 1,
            "workers": 1,
            "listeners": [{"address": "127.0.0.1:0", "mode": "forward"}],
            "pins": "pins",
            "trustAnchors": {"system": False, "files": [str(self.ca)]},
            "log": {"tasks": str(folder / "access.log")},
            "limits": {"connections": clients + 512},
            "defaults": {"timeouts": {"idle": "10m"}},
            "hosts": {host: {"upgrade": True, "resolve": f"127.0.0.1:{self.origin.ports[host]}"} for host in HOSTS},
        } | (cached if self.caches else {}), indent=2))
        server = Server(self.name, [self.binary, "run", "--config", str(folder / "config.json")], folder / "error.log")
        try:
            port = self._announced_port(server)
        except BaseException:
            server.stop()
            raise
        self.ports = {host: port for host in HOSTS}
        return server

    @staticmethod
    def _announced_port(server: Server) -> int:
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            server.check_alive()
            for line in server.log.read_text(errors="replace").splitlines():
                found = re.match(r'\{.*"address"\s*:\s*"127\.0\.0\.1:(\d+)"', line)
                if found and re.search(r'"event"\s*:\s*"listening"', line):
                    return int(found.group(1))
            time.sleep(0.02)
        raise BenchError('pinproxy wrote no {"event":"listening",…} line on stderr within 15 s')


PEERS = {peer.name: peer for peer in (Nginx, Pinproxy, HAProxy, Squid)}
