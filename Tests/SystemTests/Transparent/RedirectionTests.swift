// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

/// Whether the machine redirects connections for these tests.
private enum Redirections {
    /// With `PINPROXY_REQUIRE_CLIENTS=1` a missing program is a failure.
    static let canBeHad =
        geteuid() == 0 && (RealPeers.areRequired || (try? Programs.path(of: "nft")) != nil && hasNetworks)

    /// Whether a network with rules of its own can be made here.
    private static var hasNetworks: Bool {
        let finished = try? Programs.run("unshare", ["--mount", "--net", "nft", "list", "ruleset"], seconds: 20)
        return finished?.exitCode == 0
    }
}

/// Programs that know of no proxy, in a network of their own, whose connections nftables redirects.
///
/// The rules exempt pinproxy by its user, so that two users are needed: the tests run as root, pinproxy too, and clients as nobody.
@Suite("Connections that the kernel redirects", .onOwnThreads, .enabled(if: Redirections.canBeHad))
struct RedirectionTests {
    private static let hosts = """
        127.0.0.1 localhost
        198.51.100.1 api.test tunnel.test plain.test
        2001:db8:5::1 api.test tunnel.test plain.test
        198.51.100.2 other.test
        198.51.100.9 moved.test

        """

    /// Origins that answer with their name, the request's Host and its path.
    private static let origins = """
        import http.server, socket, ssl, threading
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_GET(self):
                body = f"{self.server.label} {self.headers['Host']}{self.path}".encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *words): pass
        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            def handle_error(self, *words): pass
        class Server6(Server):
            address_family = socket.AF_INET6
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("server.pem", "server.key")
        for kind, address, label in [(Server, "198.51.100.1", "one"), (Server, "198.51.100.2", "two"), (Server6, "2001:db8:5::1", "six")]:
            for port in [80, 443]:
                server = kind((address, port), Handler)
                server.label = label
                if port == 443:
                    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
                threading.Thread(target=server.serve_forever).start()
        print("ready", flush=True)
        """

    /// `$0` is pinproxy, `$1` the folder. It goes on with what the test appends.
    private static let beginning = """
        cd "$1"
        chmod -R a+rX .
        ip link set lo up
        ip address add 198.51.100.1/32 dev lo
        ip address add 198.51.100.2/32 dev lo
        ip address add 2001:db8:5::1/128 dev lo nodad
        mount --bind hosts /etc/hosts
        mount --bind resolv.conf /etc/resolv.conf
        unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY NODE_OPTIONS CURL_CA_BUNDLE SSL_CERT_DIR
        "$0" ca init --config config.json >ca.log || exit 9
        cat pinproxy-ca.pem anchors.pem >trusted.pem
        chmod a+r trusted.pem
        export SSL_CERT_FILE="$PWD/trusted.pem" NODE_EXTRA_CA_CERTS="$PWD/trusted.pem" HOME=/tmp
        /usr/bin/python3 origins.py >origins.log 2>&1 &
        origins=$!
        until grep -qs ready origins.log; do sleep 0.1; done
        "$0" run --config config.json >proxy.log 2>proxy.errors &
        proxy=$!
        until grep -qs listening proxy.errors; do sleep 0.1; done
        finish() { kill $origins $proxy; wait; }
        trap finish EXIT
        other() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@" 2>&1; }
        "$0" redirect --user 0 --ipv6 --apply || exit 8
        "$0" redirect --user 0 --ipv6 --apply || exit 8

        """

    /// - Parameter head: the time that a client has for its first bytes; a busy machine takes long to start one.
    private func run(
        _ script: String,
        files: [String: String] = [:],
        head: String = "30s",
        seconds: Double = 120
    ) throws -> (output: String, log: [LogLine]) {
        let folder = try TemporaryFolder()
        try folder.write(Self.hosts, as: "hosts")
        // Nobody listens there.
        try folder.write("nameserver 127.0.0.9\n", as: "resolv.conf")
        try folder.write(Self.origins, as: "origins.py")
        for (name, text) in files { try folder.write(text, as: name) }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.listeners = ["127.0.0.1:15001", "[::1]:15001"].map { ["address": $0, "mode": "transparent"] }
        // The addresses of the origins are this machine's own here.
        settings.members["access"] = ["denyAddresses": ["loopback", "link-local"]]
        settings.members["interception"] = ["certificate": "pinproxy-ca.pem", "key": "pinproxy-ca.key"]
        settings.setTimeouts(["head": head, "connect": "5s"])
        settings.hosts["api.test"] = ["connect": "intercept"]
        settings.hosts["tunnel.test"] = ["connect": "tunnel"]
        let server = try Stage.pki.server(
            CertificateBuilder.server(hosts: ["api.test", "tunnel.test"], validity: TestPKI.validity)
        )
        settings.pin("api.test", to: server.pin)
        _ = try server.write(to: folder, name: "server")
        _ = try settings.write(to: folder)
        try folder.write(Stage.pki.root.certificate.pem, as: "anchors.pem")
        let finished = try Programs.run(
            "unshare",
            [
                "--mount", "--net", "/bin/sh", "-c", Self.beginning + script, try Programs.built("pinproxy"),
                folder.path,
            ],
            seconds: seconds
        )
        let log = try String(contentsOfFile: "\(folder.path)/proxy.log", encoding: .utf8)
        return (
            finished.output + finished.errors,
            log.split(separator: "\n").compactMap { LogLine(String($0)) }.filter { $0.string("event") == "task" }
        )
    }

    private static let urls = "http://plain.test/a http://api.test/b https://api.test/c https://tunnel.test/d"

    @Test("curl and Python are served by Host, through a tunnel, and intercepted")
    func curlAndPython() throws {
        let script = try String(contentsOfFile: RealPeers.script("Clients/unaware/unaware.py"), encoding: .utf8)
        let (output, log) = try run(
            """
            for url in \(Self.urls); do other curl -4 -s -w ' %{http_code}\\n' $url; done
            other curl -6 -s -w ' %{http_code}\\n' http://plain.test/six
            other curl -6 -s -w ' %{http_code}\\n' https://api.test/six
            other /usr/bin/python3 unaware.py \(Self.urls)
            """,
            files: ["unaware.py": script]
        )
        let expected = ["plain.test/a", "api.test/b", "api.test/c", "tunnel.test/d"]
        for text in expected { #expect(output.contains("one \(text) 200\n"), "\(output)") }
        for text in ["plain.test/six", "api.test/six"] { #expect(output.contains("six \(text) 200\n"), "\(output)") }
        for text in expected {
            #expect(output.contains("python 200 one \(text)") || output.contains("python 200 six \(text)"), "\(output)")
        }
        // The pinned host was reached over TLS, and the log says where its client was going.
        let pinned = try #require(log.first { $0.string("url") == "https://api.test/b" }, "\(log.map(\.text))")
        #expect(pinned.string("originalDestination") == "198.51.100.1:80")
        #expect(pinned.transactions.first?["remoteAddress"] as? String == "198.51.100.1:443", "\(pinned.text)")
        let tunnel = try #require(log.first { $0.string("url") == "tunnel.test:443" }, "\(log.map(\.text))")
        #expect(tunnel.string("method") == "CONNECT" && tunnel.string("error") == nil, "\(tunnel.text)")
        #expect(log.contains { $0.string("originalDestination") == "[2001:db8:5::1]:443" }, "\(log.map(\.text))")
    }

    @Test(
        "programs without a proxy setting are served",
        arguments: [("node", "unaware.mjs"), ("java", "Unaware.java"), ("go", "unaware.go")]
    )
    func program(name: String, source: String) throws {
        guard (try? Programs.path(of: name)) != nil else {
            return #expect(!RealPeers.areRequired, "\(name) is not installed")
        }
        let text = try String(contentsOfFile: RealPeers.script("Clients/unaware/\(source)"), encoding: .utf8)
        let start: String
        if name == "go" {
            let program = try RealPeers.built("Clients/unaware/\(source)")
            start = "cp '\(program)' unaware; chmod a+rx unaware; other ./unaware"
        } else {
            start = "other \(try Programs.path(of: name)) \(source)"
        }
        let (output, _) = try run("\(start) \(Self.urls)", files: [source: text])
        for text in ["plain.test/a", "api.test/b", "api.test/c", "tunnel.test/d"] {
            #expect(
                output.contains("\(name) 200 one \(text)") || output.contains("\(name) 200 six \(text)"),
                "\(output)"
            )
        }
    }

    /// Says what comes back for bytes that it sends: the status of a response, the description of an alert, or nothing.
    private static let attacker = """
        import socket, ssl, sys, time
        def connect(address, port):
            return socket.create_connection((address, port), timeout=15)
        def reply(connection):
            data = b""
            try:
                while len(data) < 7:
                    more = connection.recv(4096)
                    if not more: break
                    data += more
            except ConnectionResetError:
                return "reset"
            if data[:1] == b"\\x15": return f"alert {data[6]}"
            if data[:1] == b"\\x16": return "hello"
            return data.split(b"\\r\\n")[0].decode()[9:12] or "closed"
        def status(connection):
            data = b""
            while b"\\r\\n\\r\\n" not in data:
                data += connection.recv(1) or b"\\r\\n\\r\\n"
            lines = data.decode().lower().split("\\r\\n")
            left = sum(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
            while left > 0:
                left -= len(connection.recv(left)) or left
            return data.decode()[9:12]
        def say(name, data, address="198.51.100.1", port=80, pause=0):
            connection = connect(address, port)
            try:
                if pause:
                    for start in range(0, len(data), 8):
                        connection.sendall(data[start:start + 8])
                        time.sleep(pause)
                else:
                    connection.sendall(data)
            except OSError:
                pass
            print(name, reply(connection), flush=True)
        def hello(name):
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            session = context.wrap_bio(incoming, outgoing, server_hostname=name)
            try: session.do_handshake()
            except ssl.SSLWantReadError: pass
            return outgoing.read()
        def get(host, target="/", more=b""):
            return f"GET {target} HTTP/1.1\\r\\nHost: {host}\\r\\n".encode() + more + b"\\r\\n"
        say("right", get("plain.test"))
        say("other", get("other.test"))
        say("elsewhere", get("moved.test"))
        say("unknown", get("absent.invalid"))
        say("literal", get("198.51.100.2"))
        say("own-literal", get("198.51.100.1"))
        say("port", get("plain.test:81"))
        say("absolute", get("plain.test", "http://plain.test/"))
        say("connect", b"CONNECT plain.test:80 HTTP/1.1\\r\\nHost: plain.test:80\\r\\n\\r\\n")
        say("twice", get("plain.test", more=b"Host: other.test\\r\\n"))
        say("absent", b"GET / HTTP/1.1\\r\\n\\r\\n")
        say("old", b"GET / HTTP/1.0\\r\\n\\r\\n")
        say("slowly", get("plain.test"), pause=0.01)
        say("listener", get("plain.test"), "127.0.0.1", 15001)
        say("ssh", b"SSH-2.0-OpenSSH_9.2\\r\\n")
        started = time.monotonic()
        say("silent", b"", port=443)
        print("waited", time.monotonic() - started > 1.5)
        say("hello", hello("tunnel.test"), port=443)
        say("dribbled", hello("tunnel.test"), port=443, pause=0.001)
        say("hello-elsewhere", hello("tunnel.test"), "198.51.100.2", 443)
        say("hello-denied", hello("other.test"), "198.51.100.2", 443)
        say("hello-unknown", hello("absent.invalid"), port=443)
        say("nameless", hello(None), port=443)
        say("long", b"\\x16\\x03\\x01\\x40\\x00\\x01\\x00\\xff\\xf0" + b"a" * 65536, port=443)
        say("broken", b"\\x16\\x03\\x01\\x00\\x04\\x02\\x00\\x00\\x00", port=443)
        say("hello-listener", hello("tunnel.test"), "127.0.0.1", 15001)
        connection = connect("198.51.100.1", 80)
        for host in ["plain.test", "api.test", "other.test"]:
            connection.sendall(get(host))
            print("kept", host, status(connection), flush=True)
        context = ssl.create_default_context(cafile="trusted.pem")
        inside = context.wrap_socket(connect("198.51.100.1", 443), server_hostname="api.test")
        for host in ["api.test", "other.test"]:
            inside.sendall(get(host))
            print("inside", host, status(inside), flush=True)
        """

    private static let replies = """
        right 200
        other 421
        elsewhere 421
        unknown 502
        literal 421
        own-literal 200
        port 421
        absolute 400
        connect 400
        twice 400
        absent 400
        old 400
        slowly 200
        listener 421
        ssh closed
        silent closed
        waited True
        hello hello
        dribbled hello
        hello-elsewhere alert 112
        hello-denied alert 49
        hello-unknown alert 49
        nameless alert 49
        long alert 47
        broken alert 50
        hello-listener alert 112
        kept plain.test 200
        kept api.test 200
        kept other.test 421
        inside api.test 200
        inside other.test 421

        """

    @Test("a name at another host's address is refused, and the log says why")
    func attacks() throws {
        let (output, log) = try run(
            "other /usr/bin/python3 attacker.py",
            files: ["attacker.py": Self.attacker],
            head: "2s"
        )
        #expect(output == Self.replies)
        let details = log.compactMap { $0.string("errorDetails") }.joined(separator: "\n")
        for words in [
            "none of the addresses of other.test", "was not redirected to it", "neither TLS nor HTTP",
            "where the server speaks first", "longer than 16384 bytes", "none of the addresses of tunnel.test",
        ] {
            #expect(details.contains(words), "\(words): \(details)")
        }
    }

    @Test("a connection of pinproxy itself that comes back is refused at once")
    func loop() throws {
        let (output, log) = try run(
            """
            "$0" redirect --user 12345 --ipv6 --apply
            other curl -4 -s -o body -w '%{http_code}\\n' http://plain.test/
            other curl -4 -s -o body -w '%{http_code} %{exitcode}\\n' https://tunnel.test/
            "$0" redirect --remove --apply
            "$0" redirect --remove --apply
            other curl -4 -s http://plain.test/direct
            """
        )
        #expect(output.hasPrefix("508\n000 35\none plain.test/direct"), "\(output)")
        #expect(log.filter { $0.string("error") == "loop_detected" }.count == 2, "\(log.map(\.text))")
        #expect(log.count < 8, "\(log.map(\.text))")
    }

    // MARK: Others than this machine

    /// Clients and servers in networks of their own, with this one between them. `$0` is pinproxy, `$1` the folder.
    private static let between = """
        cd "$1"
        ip link set lo up
        mount --bind hosts /etc/hosts
        unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY
        unshare --net sleep 120 &
        clients=$!
        unshare --net sleep 120 &
        servers=$!
        own=$(readlink /proc/self/ns/net)
        for process in $clients $servers; do
            until [ "$(readlink /proc/$process/ns/net)" != "$own" ]; do sleep 0.1; done
        done
        ip link add out0 type veth peer name eth0 netns $clients
        ip link add srv0 type veth peer name eth0 netns $servers
        ip address add 10.9.0.1/24 dev out0
        ip address add 10.8.0.1/24 dev srv0
        ip link set out0 up
        ip link set srv0 up
        client() { nsenter --target $clients --net -- "$@"; }
        server() { nsenter --target $servers --net -- "$@"; }
        for name in client server; do
            $name ip link set lo up
            $name ip link set eth0 up
        done
        client ip address add 10.9.0.2/24 dev eth0
        client ip route add default via 10.9.0.1
        server ip address add 10.8.0.2/24 dev eth0
        server ip route add default via 10.8.0.1
        for address in 198.51.100.1/32 198.51.100.2/32 2001:db8:5::1/128; do server ip address add $address dev lo nodad; done
        ip route add 198.51.100.0/24 via 10.8.0.2
        echo 1 >/proc/sys/net/ipv4/ip_forward
        server /usr/bin/python3 origins.py >origins.log 2>&1 &
        origins=$!
        until grep -qs ready origins.log; do sleep 0.1; done
        finish() { kill $origins $proxy $clients $servers; wait; }
        trap finish EXIT
        start() {
            "$0" run --config $1 >proxy.log 2>proxy.errors &
            proxy=$!
            until grep -q '"listening"' proxy.errors; do sleep 0.1; done
        }
        ask() {
            client curl -4 -s -m 20 -i http://plain.test/$1 | tr -d '\\r' | grep -c '^Via: .*pinproxy'
            client curl -4 -sk -m 20 https://tunnel.test/$1
            client curl -4 -s -m 20 -o body -w ' %{http_code}\\n' -H 'Host: other.test' http://plain.test/$1
        }
        start redirect.json
        "$0" redirect --user 0 --forwarded --apply
        ask forwarded
        "$0" redirect --remove --apply
        kill $proxy
        wait $proxy
        start tproxy.json
        ip rule add fwmark 1 lookup 100
        ip route add local 0.0.0.0/0 dev lo table 100
        nft -f tproxy.nft
        ask tproxy
        """

    private static let tproxy = """
        table ip behind {
            chain prerouting {
                type filter hook prerouting priority mangle; policy accept;
                iifname "out0" tcp dport { 80, 443 } tproxy to 127.0.0.1:15001 meta mark set 1 accept
            }
        }

        """

    @Test("connections of others are redirected by --forwarded, and come by TPROXY")
    func others() throws {
        let folder = try TemporaryFolder()
        try folder.write(Self.hosts, as: "hosts")
        try folder.write(Self.origins, as: "origins.py")
        try folder.write(Self.tproxy, as: "tproxy.nft")
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["access"] = ["denyAddresses": ["loopback"]]
        settings.members["defaults"] = ["connect": "tunnel"]
        _ = try Stage.pki.server("tunnel.test").write(to: folder, name: "server")
        for (name, address) in [("redirect", "10.9.0.1:15001"), ("tproxy", "127.0.0.1:15001")] {
            settings.listeners = [["address": address, "mode": "transparent", "allowRemoteClients": true]]
            _ = try settings.write(to: folder)
            try FileManager.default.moveItem(
                atPath: "\(folder.path)/config.json",
                toPath: "\(folder.path)/\(name).json"
            )
        }
        let finished = try Programs.run(
            "unshare",
            ["--mount", "--net", "/bin/sh", "-c", Self.between, try Programs.built("pinproxy"), folder.path],
            seconds: 120
        )
        #expect(
            finished.output == "1\none tunnel.test/forwarded 421\n1\none tunnel.test/tproxy 421\n",
            "\(finished.output) \(finished.errors)"
        )
    }
}
