# SPDX-License-Identifier: Apache-2.0
"""The proxies: how each is configured and started. A new one is a subclass of `Peer`, named in `PEERS`."""
from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from origin import CLOSING_HOST, H2_HOST, KEPT_HOST, MISNAMED_HOST, OTHER_HOST, Origin
from processes import BenchError, LineSink, Server, free_port

UPSTREAM_IDLE_CONNECTIONS = 128

# What a peer is for its clients, and what it does with the origin.
PROXY = "proxy"
"""each as it is used most: pinproxy as a forward proxy with absolute form, the others as reverse proxies"""
GATEWAY = "gateway"
"""a reverse proxy: requests in origin form"""
H2C_CLIENTS = "h2c"
"""a reverse proxy for cleartext HTTP/2 with prior knowledge"""
H2_ORIGIN = "h2-origin"
"""HTTP/2 to the origin"""
TUNNEL = "tunnel"
"""CONNECT, and the bytes pass unchanged"""
INTERCEPT = "intercept"
"""CONNECT, and the proxy ends the client's TLS with a certificate of a local CA"""


@dataclass(frozen=True)
class Setup:
    kind: str = PROXY
    clients: int = 512
    """connections of clients at a time"""
    caches: bool = False
    """every response is stored for an hour, whatever it says"""
    on_disk: bool = False
    """pinproxy stores what is larger than 1 MB on the disk; nginx always does"""
    workers: int = 1
    wrapper: tuple[str, ...] = ()
    """a program and its arguments that runs the peer (valgrind)"""
    settings: dict = field(default_factory=dict, hash=False)
    """more keys of pinproxy's configuration"""


class Peer:
    """A proxy that verifies the origin's certificate, with one worker and a buffered access log in a file."""

    name = ""
    version_arguments = ["-v"]
    kinds: tuple[str, ...] = (PROXY, GATEWAY)
    stores_on_disk = False
    is_usual = True
    """measured without being named"""

    def __init__(self, binary: str, origin: Origin, ca: Path) -> None:
        self.binary = binary
        self.origin = origin
        self.ca = ca
        self.ports: dict[str, int] = {}
        self.setup = Setup()
        self.server: Server | None = None
        self.client_ca = ca
        """what clients of TUNNEL and INTERCEPT trust"""
        self.access_log = Path()

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

    def connect_authority(self, host: str) -> str:
        """The authority of a CONNECT that leads to `host`."""
        return f"{host}:443"

    @classmethod
    def can(cls, setup: Setup) -> bool:
        """Whether the peer can do that work."""
        return setup.kind in cls.kinds and (cls.stores_on_disk or not setup.on_disk)

    @property
    def caches(self) -> bool:
        return self.setup.caches

    def start(self, folder: Path, setup: Setup) -> None:
        """Starts in the new folder `folder`."""
        if not self.can(setup):
            raise BenchError(f"{self.name} has no {setup.kind}" + (" with a cache on the disk" if setup.on_disk else ""))
        folder.mkdir()
        self.setup = setup
        self.access_log = folder / "access.log"
        hosts = (H2_HOST,) if setup.kind == H2_ORIGIN else (KEPT_HOST, CLOSING_HOST, MISNAMED_HOST)
        self.ports = {host: free_port() for host in hosts}
        # A program under valgrind takes its time.
        patience = 120 if setup.wrapper else 15
        self.server = self.launch(folder, setup, patience)
        self.server.wait_until_listening(sorted(set(self.ports.values())), patience)

    def launch(self, folder: Path, setup: Setup, patience: float) -> Server:
        raise NotImplementedError

    def stop(self, patience: float = 5.0) -> None:
        if self.server is not None:
            self.server.stop(patience)
            self.server = None

    @property
    def running(self) -> Server:
        if self.server is None:
            raise BenchError(f"{self.name} does not run")
        return self.server

    def logged_lines(self) -> int:
        """Requests in the access log, as far as it is written."""
        with open(self.access_log, "rb") as log:
            return sum(part.count(b"\n") for part in iter(lambda: log.read(1 << 20), b""))


class Nginx(Peer):
    name = "nginx"
    kinds = (PROXY, GATEWAY, H2C_CLIENTS)
    stores_on_disk = True

    # The fields of pinproxy's line, as far as nginx has them.
    log_format = (
        '{"time":"$time_iso8601","event":"task","taskIdentifier":$connection,"client":"$remote_addr:$remote_port",'
        '"method":"$request_method","url":"$scheme://$host$request_uri","status":$status,"bytesSent":$request_length,'
        '"bytesReceived":$body_bytes_sent,"duration":$request_time,"cache":"$upstream_cache_status",'
        '"transactions":[{"url":"https://$proxy_host$uri","status":"$upstream_status",'
        '"connectEnd":"$upstream_connect_time","responseStart":"$upstream_header_time",'
        '"responseEnd":"$upstream_response_time","requestBytesSent":"$upstream_bytes_sent",'
        '"responseBytesReceived":"$upstream_bytes_received","responseBodyBytesReceived":"$upstream_response_length",'
        '"networkProtocolName":"$server_protocol","remoteAddress":"$upstream_addr"}]}')

    def launch(self, folder: Path, setup: Setup, patience: float) -> Server:
        http2 = " http2" if setup.kind == H2C_CLIENTS else ""
        servers = "".join(f"""
    upstream origin-{port} {{
        server 127.0.0.1:{self.origin.ports[host]};
        {"" if host == CLOSING_HOST else f"keepalive {UPSTREAM_IDLE_CONNECTIONS}; keepalive_requests 1000000000;"}
    }}
    server {{
        listen 127.0.0.1:{port}{http2} backlog=4096;
        location / {{
            proxy_pass https://origin-{port};
            proxy_http_version 1.1;
            proxy_set_header Host {host};
            proxy_set_header Connection "{"close" if host == CLOSING_HOST else ""}";
            proxy_ssl_name {host};
            {"proxy_cache kept; proxy_cache_valid 200 1h;" if setup.caches else ""}
        }}
    }}""" for host, port in self.ports.items())
        configuration = folder / "nginx.conf"
        configuration.write_text(f"""\
{"user root;" if os.geteuid() == 0 else ""}
daemon off;
worker_processes {setup.workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
worker_rlimit_nofile {2 * setup.clients + 1024};
# An eighth more than needed: below a sixteenth of free ones nginx closes idle clients.
events {{ worker_connections {setup.clients * 9 // 8 + 512}; }}
http {{
    log_format like_pinproxy escape=json '{self.log_format}';
    access_log {self.access_log} like_pinproxy buffer=64k flush=1s;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    tcp_nodelay on;
    # Streams only: a body never goes through a temporary file.
    {f"proxy_cache_path {folder}/cache levels=1:2 keys_zone=kept:10m max_size=1g;" if setup.caches
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
        command = [*setup.wrapper, self.binary, "-e", str(folder / "error.log"), "-c", str(configuration)]
        return Server(self.name, command, folder / "error.log")


class HAProxy(Peer):
    name = "haproxy"
    kinds = (PROXY, GATEWAY, H2C_CLIENTS, H2_ORIGIN)

    # The fields of pinproxy's line, as far as HAProxy has them.
    log_format = (
        '{"time":"%tr","event":"task","taskIdentifier":%rt,"client":"%ci:%cp",'
        '"method":"%HM","url":"http://%f%HU","status":%ST,"bytesSent":%U,"bytesReceived":%B,'
        '"duration":%Ta,"transactions":[{"url":"https://%b%HP","status":%ST,"queueEnd":%Tw,"connectEnd":%Tc,'
        '"responseStart":%Tr,"responseEnd":%Tt,"requestStart":%TR,"connectionState":"%tsc","retries":"%rc",'
        '"networkProtocolName":"%HV","remoteAddress":"%si:%sp","frontend":"%f","backend":"%b","server":"%s"}]}')

    def launch(self, folder: Path, setup: Setup, patience: float) -> Server:
        # HAProxy cannot write to a file but through standard output, line by line. A ring with a receiver of its own
        # is its buffered log: it writes many lines at a time.
        sink = LineSink(self.access_log)
        alpn = "h2" if setup.kind == H2_ORIGIN else "http/1.1"
        clients = " proto h2" if setup.kind == H2C_CLIENTS else ""
        sections = "".join(f"""
listen {host}
    bind 127.0.0.1:{port} backlog 4096{clients}
    http-request set-header Host {host}
    http-reuse {"never" if host == CLOSING_HOST else "always"}
    {"http-request cache-use kept" if setup.caches else ""}
    {"http-response set-header Cache-Control max-age=3600" if setup.caches else ""}
    {"http-response cache-store kept" if setup.caches else ""}
    {"option http-server-close" if host == CLOSING_HOST else ""}
    server origin 127.0.0.1:{self.origin.ports[host]} ssl verify required ca-file {self.ca} """ + (
            f"sni str({host}) verifyhost {host} alpn {alpn} pool-max-conn {UPSTREAM_IDLE_CONNECTIONS} pool-low-conn 0"
            f"{' no-ssl-reuse' if host == CLOSING_HOST else ''}\n") for host, port in self.ports.items())
        configuration = folder / "haproxy.cfg"
        configuration.write_text(f"""\
global
    nbthread {setup.workers}
    maxconn {setup.clients + 512}
    # It reckons with two descriptors a client; where the limit is lower, a warning has to do.
    no strict-limits
ring lines
    format raw
    maxlen 2000
    size 1048576
    timeout connect 5s
    timeout server 600s
    server sink 127.0.0.1:{sink.port}
defaults
    mode http
    log ring@lines len 2000 local0 info
    log-format '{self.log_format}'
    timeout connect 10s
    timeout client 600s
    timeout http-keep-alive 600s
    timeout http-request 60s
    timeout server 600s
    maxconn {setup.clients + 512}
{"cache kept" if setup.caches else ""}
{"    total-max-size 64" if setup.caches else ""}
{"    max-object-size 1000000" if setup.caches else ""}
{"    max-age 3600" if setup.caches else ""}
{sections}
""")
        server = Server(self.name, [*setup.wrapper, self.binary, "-db", "-f", str(configuration)], folder / "error.log")
        server.companions.append(sink)
        return server


class Squid(Peer):
    name = "squid"
    kinds = (PROXY, GATEWAY, TUNNEL, INTERCEPT)

    # The fields of pinproxy's line, as far as Squid has them.
    log_format = (
        '{"time":"%{%Y-%m-%dT%H:%M:%S}tl.%03tu","event":"task","taskIdentifier":%sn,"client":"%>a:%>p","method":"%rm",'
        '"url":"%ru","status":%>Hs,"bytesSent":%>st,"bytesReceived":%<st,"duration":%tr,"cache":"%Ss",'
        '"transactions":[{"url":"%<ru","status":%<Hs,"responseStart":"%<pt","responseEnd":"%<tt",'
        '"responseHeaderBytesReceived":%<sh,"networkProtocolName":"%rv","hierarchy":"%Sh",'
        '"remoteAddress":"%<a:%<p","localAddress":"%<la:%<lp"}]}')

    @classmethod
    def version(cls, binary: str) -> str:
        first = super().version(binary)
        linked = subprocess.run(["ldd", binary], capture_output=True, text=True, timeout=10).stdout
        return first + (" (GnuTLS)" if "libgnutls" in linked else " (OpenSSL)" if "libssl" in linked else "")

    def connect_authority(self, host: str) -> str:
        return f"{host}:{self.origin.ports[host]}"

    def launch(self, folder: Path, setup: Setup, patience: float) -> Server:
        lines = self._forward(folder, setup) if setup.kind in (TUNNEL, INTERCEPT) else self._reverse(setup)
        # Not `cache deny all`: with it Squid 5.7 keeps some 25 KB of each answer.
        kept = """\
cache_mem 64 MB
maximum_object_size_in_memory 1 MB
refresh_pattern . 60 100% 60 override-expire override-lastmod ignore-reload
""" if setup.caches else "store_miss deny all\ncache_mem 0 MB\n"
        configuration = folder / "squid.conf"
        configuration.write_text("\n".join(lines) + f"""
http_access allow all
{kept}logformat like_pinproxy {self.log_format}
access_log stdio:{self.access_log} like_pinproxy
buffered_logs on
cache_log {folder}/error.log
pid_filename {folder}/squid.pid
coredump_dir {folder}
mime_table /usr/share/squid/mime.conf
pinger_enable off
shutdown_lifetime 0 seconds
client_idle_pconn_timeout 10 minutes
server_idle_pconn_timeout 10 minutes
max_filedescriptors {2 * setup.clients + 1024}
visible_hostname bench
""")
        if os.geteuid() == 0:
            # Squid started by root gives its rights up and must still be able to write its logs.
            account = pwd.getpwnam("proxy")
            for path in (folder, *folder.rglob("*")):
                os.chown(path, account.pw_uid, account.pw_gid)
        return Server(self.name, [*setup.wrapper, self.binary, "-N", "-f", str(configuration)], folder / "start.log")

    def _reverse(self, setup: Setup) -> list[str]:
        lines = ["never_direct allow all"]
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
        return lines

    def _forward(self, folder: Path, setup: Setup) -> list[str]:
        (folder / "hosts").write_text("".join(f"127.0.0.1 {host}\n" for host in self.ports))
        lines = [f"hosts_file {folder}/hosts"]
        bumps = setup.kind == INTERCEPT
        if bumps:
            certificates = self.origin.certificates
            ca = folder / "local-ca.pem"
            ca.write_text(certificates.ca.read_text() + (certificates.folder / "ca.key").read_text())
            subprocess.run([_certificate_generator(), "-c", "-s", str(folder / "made"), "-M", "4MB"], check=True,
                           capture_output=True)
            lines += [f"sslcrtd_program {_certificate_generator()} -s {folder}/made -M 4MB", "sslcrtd_children 1",
                      "ssl_bump bump all", f"tls_outgoing_options cafile={self.ca}"]
        bump = f" ssl-bump tls-cert={folder}/local-ca.pem generate-host-certificates=on" if bumps else ""
        return lines + [f"http_port 127.0.0.1:{port}{bump}" for port in self.ports.values()]


def _certificate_generator() -> str:
    path = "/usr/lib/squid/security_file_certgen"
    if not os.path.exists(path):
        raise BenchError(f"{path} is missing: Debian's squid-openssl has it")
    return path


class Pinproxy(Peer):
    name = "pinproxy"
    kinds = (PROXY, GATEWAY, H2C_CLIENTS, H2_ORIGIN, TUNNEL, INTERCEPT)
    stores_on_disk = True
    version_arguments = ["version"]

    def target(self, host: str, path: str) -> str:
        return f"http://{host}{path}" if self.setup.kind in (PROXY, H2_ORIGIN) else path

    def launch(self, folder: Path, setup: Setup, patience: float) -> Server:
        self.write(folder, setup)
        if setup.kind == INTERCEPT:
            self.client_ca = folder / "local-ca.pem"
            subprocess.run([self.binary, "ca", "init", "--config", str(folder / "config.json")], check=True,
                           capture_output=True)
        server = Server(self.name, [*setup.wrapper, self.binary, "run", "--config", str(folder / "config.json")],
                        folder / "error.log")
        is_gateway = setup.kind in (GATEWAY, H2C_CLIENTS)
        try:
            ports = announced_ports(server, len(self.ports) if is_gateway else 1, patience)
        except BaseException:
            server.stop()
            raise
        self.ports = dict(zip(self.ports, ports if is_gateway else ports[:1] * len(self.ports)))
        return server

    def write(self, folder: Path, setup: Setup) -> None:
        certificates = self.origin.certificates
        (folder / "pins").mkdir()
        # A host in a pin file is never tunnelled.
        pinned = [OTHER_HOST] if setup.kind == TUNNEL else list(self.ports)
        (folder / "pins" / "bench.json").write_text(json.dumps(
            {"version": 1, "pinnedDomains": {host: pins(certificates) for host in pinned}}, indent=2))
        listeners = [{"address": "127.0.0.1:0", "mode": "forward"}]
        if setup.kind in (GATEWAY, H2C_CLIENTS):
            listeners = [{"address": "127.0.0.1:0", "mode": "gateway", "upstream": f"https://{host}"}
                         | ({"http2": True} if setup.kind == H2C_CLIENTS else {}) for host in self.ports]
        host_settings = {"upgrade": True} | {
            H2_ORIGIN: {"httpVersion": "2"}, TUNNEL: {"connect": "tunnel"}, INTERCEPT: {"connect": "intercept"}
        }.get(setup.kind, {})
        value = {
            "version": 1,
            "workers": setup.workers,
            "listeners": listeners,
            "pins": "pins",
            "trustAnchors": {"system": False, "files": [str(self.ca)]},
            "log": {"tasks": str(self.access_log)},
            "limits": {"connections": setup.clients + 512},
            "defaults": {"timeouts": {"idle": "10m"}},
            "hosts": {host: host_settings | {"resolve": f"127.0.0.1:{self.origin.ports[host]}"} for host in self.ports},
        }
        if setup.caches:
            disk = {"path": str(folder / "cache"), "size": "1GB"}
            value["cache"] = {"memory": "1MB", "disk": disk} if setup.on_disk else {}
            value["defaults"]["cache"] = {"rules": [{"then": "store", "ttl": "1h"}]}
        if setup.kind == INTERCEPT:
            value["interception"] = {"certificate": "local-ca.pem", "key": "local-ca.key"}
        for key, more in setup.settings.items():
            value[key] = value[key] | more if isinstance(value.get(key), dict) else more
        (folder / "config.json").write_text(json.dumps(value, indent=2))


def pins(certificates) -> dict:
    return {"pins": [{"spki-sha256": certificates.leaf_pin}, {"spki-sha256": certificates.backup_pin, "backup": True}]}


def announced_ports(server: Server, count: int, seconds: float) -> list[int]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        server.check_alive()
        ports = re.findall(r'"event":"listening".*?"address":"127\.0\.0\.1:(\d+)"',
                           server.log.read_text(errors="replace"))
        if len(ports) >= count:
            return [int(port) for port in ports]
        time.sleep(0.02)
    raise BenchError(f"pinproxy does not listen after {seconds:g} s. Its log:\n{server.log_tail(10)}")


class Floor(Peer):
    """No proxy: a C program of the system calls, the TLS and a log line that the work cannot do without (Floor/floor.c)."""

    name = "floor"
    is_usual = False

    @classmethod
    def find(cls) -> str | None:
        source = Path(__file__).resolve().parent / "Floor" / "floor.c"
        binary = source.parent.parent.parent / ".build" / "floor"
        compiler = shutil.which("cc") or shutil.which("clang")
        if compiler is None:
            return None
        binary.parent.mkdir(exist_ok=True)
        subprocess.run([compiler, "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(binary), str(source),
                        "-lssl", "-lcrypto"], check=True)
        return str(binary)

    @classmethod
    def version(cls, binary: str) -> str:
        return "floor"

    def launch(self, folder: Path, setup: Setup, patience: float) -> Server:
        hosts = [f"{port}:{self.origin.ports[host]}:{host}" for host, port in self.ports.items()]
        command = [*setup.wrapper, self.binary, str(self.ca), str(self.access_log), str(int(setup.caches)), *hosts]
        return Server(self.name, command, folder / "error.log")


PEERS = {peer.name: peer for peer in (Nginx, Pinproxy, HAProxy, Squid, Floor)}
