// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// Names with addresses of both families, in name spaces of their own: `/etc/hosts` says what the test wants, and a link
/// that leads nowhere swallows what is sent to it.
@Suite("Hosts with addresses of both families", .onOwnThreads)
struct DualStackTests {
    private static let hosts = """
        127.0.0.1 localhost
        127.0.0.2 refused4.test
        ::1 refused4.test
        ::1 refused6.test
        127.0.0.2 refused6.test
        192.0.2.77 silent4.test
        ::1 silent4.test
        2001:db8::77 silent6.test
        127.0.0.2 silent6.test
        192.0.2.77 silent.test
        2001:db8::77 silent.test
        192.0.2.77 pinned4.test
        ::1 pinned4.test
        2001:db8::77 pinned6.test
        127.0.0.2 pinned6.test
        ::1 refused.test
        127.0.0.2 refused.test
        192.0.2.77 dead.test
        127.0.0.2 dead.test
        192.0.2.77 verified.test
        127.0.0.2 verified.test

        """

    /// `$0` is pinproxy, `$1` the folder. Nothing else listens in this network: the ports may be any.
    private static let script = """
        cd "$1"
        ip link set lo up
        ip link add hole type veth peer name far
        ip link set hole up
        ip link set far up
        ip address add 192.0.2.1/24 dev hole
        ip address add 2001:db8::1/64 dev hole nodad
        ip neighbour add 192.0.2.77 lladdr 02:00:00:00:00:77 dev hole
        ip neighbour add 2001:db8::77 lladdr 02:00:00:00:00:77 dev hole
        mount --bind hosts /etc/hosts
        python3 -m http.server 8006 --bind ::1 --directory six >six.log 2>&1 &
        six=$!
        python3 -m http.server 8004 --bind 127.0.0.2 --directory four >four.log 2>&1 &
        four=$!
        openssl s_server -accept '[::1]:8446' -cert server.pem -cert_chain server.pem -key server.key -quiet >tls6.log 2>&1 &
        tls6=$!
        openssl s_server -accept 127.0.0.2:8444 -cert server.pem -cert_chain server.pem -key server.key -quiet >tls4.log 2>&1 &
        tls4=$!
        for port in '[::1]:8446' 127.0.0.2:8444; do
            until openssl s_client -connect $port </dev/null >tls.log 2>&1; do sleep 0.1; done
        done
        "$0" run --config config.json >proxy.log 2>&1 &
        proxy=$!
        for port in '[::1]:8006' 127.0.0.2:8004 127.0.0.1:3128; do
            until curl -s -o /dev/null "http://$port/"; do sleep 0.1; done
        done
        for url in refused4.test:8006 refused6.test:8004 silent4.test:8006 silent6.test:8004 silent.test:8004; do
            curl -s -o answer -w '%{http_code} ' -x http://127.0.0.1:3128 "http://$url/name"
            echo "$url $(head -c 200 answer)"
        done
        for url in pinned4.test:8446 pinned6.test:8444 refused.test:8444; do
            curl -s -o answer -w '%{http_code} ' -x http://127.0.0.1:3128 "http://$url/"
            echo "$url"
        done
        curl -s -o answer -w '%{http_code} ' -x http://127.0.0.1:3128 http://dead.test:8004/name
        echo "request $(head -c 200 answer)"
        openssl s_client -proxy 127.0.0.1:3128 -connect dead.test:8444 </dev/null >tunnel.log 2>&1
        echo "tunnel $?"
        "$0" fetch --config config.json http://dead.test:8004/name >answer 2>fetch.log
        echo "fetch $? $(head -c 200 answer)"
        "$0" pins show --anchors anchors.pem dead.test:8444 >show.log 2>&1
        echo "show $? $(tr '\\n' ' ' <show.log | tail -c 300)"
        "$0" pins verify --config config.json verified.test:8444 >verify.log 2>&1
        echo "verify $? $(tr '\\n' ' ' <verify.log | tail -c 300)"
        kill $six $four $tls4 $tls6 $proxy
        wait
        """

    @Test("an address that refuses or drops is replaced by another one")
    func fallback() throws {
        let folder = try TemporaryFolder()
        try folder.write(Self.hosts, as: "hosts")
        try folder.write("six", as: "six/name")
        try folder.write("four", as: "four/name")
        var settings = ProxySettings(trusting: Stage.pki)
        settings.listeners = [["address": "127.0.0.1:3128"]]
        settings.members["access"] = ["denyAddresses": [String](), "connectPorts": [8444]]
        settings.setTimeouts(["connect": "5s"])
        settings.hosts["dead.test"] = ["connect": "tunnel"]
        let names = ["pinned4.test", "pinned6.test", "refused.test"]
        for name in names { settings.pin(name, to: .unrelated(9)) }
        let server = try Stage.pki.server(
            CertificateBuilder.server(hosts: names + ["dead.test", "verified.test"], validity: TestPKI.validity)
        )
        settings.pin("verified.test", to: server.pin)
        _ = try server.write(to: folder, name: "server")
        _ = try settings.write(to: folder)
        let finished = try Programs.run(
            "unshare",
            [
                "--user", "--map-root-user", "--mount", "--net", "/bin/sh", "-c", Self.script,
                try Programs.built("pinproxy"), folder.path,
            ],
            seconds: 60
        )
        let lines = finished.output.split(separator: "\n").map(String.init)
        try #require(lines.count >= 5, "\(finished.output) \(finished.errors)")
        #expect(lines[0] == "200 refused4.test:8006 six")
        #expect(lines[1] == "200 refused6.test:8004 four")
        // Within timeouts.connect, which the swallowing address alone would use up.
        #expect(lines[2] == "200 silent4.test:8006 six")
        #expect(lines[3] == "200 silent6.test:8004 four")
        #expect(lines[4].hasPrefix("504 silent.test:8004 "))
        #expect(finished.output.contains("connect_timeout"))
        // The same for two addresses of one family, in every way to a server.
        let ways = ["200 request four", "tunnel 0", "fetch 0 four", "show 0", "verify 0"]
        for way in ways { #expect(lines.contains { $0.hasPrefix(way) }, "\(way): \(finished.output)") }

        // A server that is refused is told by the address that has shown the key, not by one that was tried beside it.
        let log = try String(contentsOfFile: "\(folder.path)/proxy.log", encoding: .utf8)
        let tasks = log.split(separator: "\n").compactMap { LogLine(String($0)) }.filter {
            $0.string("event") == "task"
        }
        for (name, address) in zip(names, ["[::1]:8446", "127.0.0.2:8444", "127.0.0.2:8444"]) {
            let line = try #require(tasks.first { $0.string("url")?.contains(name) == true }, "\(log)")
            #expect(line.transactions.first?["remoteAddress"] as? String == address, "\(line.text)")
        }
    }
}
