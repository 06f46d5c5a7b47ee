// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Name servers of the test's own, on the port that resolv.conf(5) means, in a network of the test's own.
@Suite("Names without a response of any name server", .onOwnThreads)
struct NameServerTests {
    /// `$0` is pinproxy, `$1` the folder. Prints what the requests got, what the process had meanwhile at most, and what it
    /// had before.
    private static let script = """
        cd "$1"
        ip link set lo up
        mount --bind resolv.conf /etc/resolv.conf
        python3 names.py >names.log 2>&1 &
        names=$!
        python3 -m http.server 8006 --bind 127.0.0.1 --directory files >server.log 2>&1 &
        server=$!
        "$0" run --config config.json >proxy.log 2>&1 &
        proxy=$!
        export http_proxy=http://127.0.0.1:3128
        for port in 8006 3128; do
            until curl -s -o /dev/null --noproxy '*' "http://127.0.0.1:$port/"; do sleep 0.1; done
        done
        until grep -q ':0035 ' /proc/net/udp; do sleep 0.1; done
        curl -s -o /dev/null http://first.good.test:8006/name
        figures() {
            echo $(ls /proc/$proxy/task | wc -l) $(ls /proc/$proxy/fd | wc -l) \\
                $(awk '$1 == "RssAnon:" { print $2 }' /proc/$proxy/status)
        }
        echo before $(figures)
        get() { curl -s -o /dev/null -w '%{http_code} %{url}\\n' --parallel --parallel-immediate --parallel-max 300 "$@"; }
        get 'http://few[1-40].test/' >few &
        few=$!
        until [ $(ls /proc/$proxy/fd | wc -l) -ge 80 ]; do sleep 0.05; done
        get http://second.good.test:8006/name http://half.test:8006/name
        wait $few
        get 'http://name[1-300].test/' >many &
        many=$!
        while kill -0 $many 2>/dev/null; do echo during $(figures); sleep 0.1; done
        cut -d ' ' -f 1 few many | sort | uniq -c
        kill $names $server $proxy
        wait
        """

    /// Knows names below good.test, and the A records of half.test.
    private static let server = """
        import socket
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", 53))
        while True:
            query, peer = server.recvfrom(1500)
            labels, place = [], 12
            while query[place]:
                labels.append(query[place + 1:place + 1 + query[place]].decode())
                place += 1 + query[place]
            is_ipv4 = query[place + 2] == 1
            name = ".".join(labels)
            if not name.endswith("good.test") and not (name == "half.test" and is_ipv4):
                continue
            record = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4\\x7f\\0\\0\\1" if is_ipv4 else b""
            counts = bytes([0, 1, 0, 1 if record else 0, 0, 0, 0, 0])
            server.sendto(query[:2] + b"\\x81\\x80" + counts + query[12:place + 5] + record, peer)
        """

    @Test("300 such requests get 504 with few resources; other names resolve")
    func silent() throws {
        let folder = try TemporaryFolder()
        try folder.write("here", as: "files/name")
        try folder.write("nameserver 127.0.0.1\n", as: "resolv.conf")
        try folder.write(Self.server, as: "names.py")
        var settings = ProxySettings(trusting: Stage.pki)
        settings.listeners = [["address": "127.0.0.1:3128"]]
        settings.members["access"] = ["denyAddresses": [String]()]
        settings.members["workers"] = 1
        settings.setTimeouts(["connect": "3s"])
        _ = try settings.write(to: folder)
        let finished = try Programs.run(
            "unshare",
            [
                "--user", "--map-root-user", "--mount", "--net", "/bin/sh", "-c", Self.script,
                try Programs.built("pinproxy"), folder.path,
            ],
            seconds: 60
        )
        let output = "\(finished.output) \(finished.errors)"
        let lines = finished.output.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        // 40 silent names do not fill the queries for other names, and a silent AAAA query does not hold an A response back.
        #expect(finished.output.contains("200 http://second.good.test:8006/name\n"), "\(output)")
        #expect(finished.output.contains("200 http://half.test:8006/name\n"), "\(output)")
        #expect(lines.last == ["340", "504"], "\(output)")
        func figures(_ word: String) -> [[Int]] {
            lines.filter { $0.first == word && $0.count == 4 }.map { $0.dropFirst().compactMap(Int.init) }
        }
        let before = try #require(figures("before").first, "\(output)")
        let during = figures("during")
        let descriptors = try #require(during.map { $0[1] }.max(), "\(output)")
        #expect(during.allSatisfy { $0[0] == before[0] }, "\(output)")
        // One for each client, and one for each of 64 names.
        #expect(descriptors > before[1] + 300 && descriptors <= before[1] + 300 + 64 + 10, "\(output)")
        let log = try String(contentsOfFile: "\(folder.path)/proxy.log", encoding: .utf8)
        let codes = log.split(separator: "\n").compactMap { LogLine(String($0)) }
            .filter { $0.string("event") == "task" && $0.string("url")?.hasPrefix("http://name") == true }
            .compactMap { $0.string("error") }
        #expect(codes.count { $0 == "dns_timeout" } == 300, "\(Set(codes))")
    }
}
