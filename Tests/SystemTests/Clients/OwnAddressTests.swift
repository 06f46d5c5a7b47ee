// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// The machine's own addresses, in a network of the test's own: some are there at the start, one comes later and goes again.
@Suite("Addresses of the machine itself", .onOwnThreads)
struct OwnAddressTests {
    /// `$0` is pinproxy, `$1` the folder. Nothing else listens in this network: the ports may be any.
    private static let script = """
        cd "$1"
        ip link set lo up
        ip link add hole type veth peer name far
        ip link set hole up
        ip link set far up
        ip address add 192.0.2.1/24 dev hole
        ip address add 2001:db8::1/64 dev hole nodad
        for address in 192.0.2.9 192.0.2.77; do
            ip neighbour add $address lladdr 02:00:00:00:00:77 dev hole
        done
        python3 -m http.server 8006 --bind :: --directory files >server.log 2>&1 &
        server=$!
        for name in open closed; do
            "$0" run --config $name.json >$name.log 2>&1 &
            eval $name=$!
        done
        for port in 127.0.0.1:8006 127.0.0.1:3128 127.0.0.1:3129; do
            until curl -s -o /dev/null "http://$port/"; do sleep 0.1; done
        done
        ask() {
            curl -s -o answer -w "$1 $3 %{http_code} " -x "http://127.0.0.1:$2" "http://$3/name"
            tr -d '\\n' <answer | grep -o '"detail":.*\\|^six$' || echo
        }
        asks() {
            ask "$1" 3129 "$2:8006"
            ask "$1" 3128 "$2:8006"
            ask "$1" 3128 "$2:8081"
            ask "$1" 3128 "$2:3128"
        }
        asks start 192.0.2.1
        asks start '[2001:db8::1]'
        ask start 3129 '[2002:c000:201::]:8006'
        ask before 3129 192.0.2.9:8006
        ask before 3128 192.0.2.9:8081
        ip address add 192.0.2.9/24 dev hole
        ip address add 2001:db8::9/64 dev hole nodad
        asks added 192.0.2.9
        asks added '[2001:db8::9]'
        ip address del 192.0.2.9/24 dev hole
        ask removed 3129 192.0.2.9:8006
        ask other 3129 192.0.2.77:8006
        ip route add local 198.51.100.0/24 dev lo
        asks routed 198.51.100.7
        kill $server $open $closed
        wait
        """

    /// The columns of each line: the step, the place, the status.
    private static let expected = """
        start 192.0.2.1:8006 403 self
        start 192.0.2.1:8006 200 six
        start 192.0.2.1:8081 403 listener
        start 192.0.2.1:3128 403 listener
        start [2001:db8::1]:8006 403 self
        start [2001:db8::1]:8006 200 six
        start [2001:db8::1]:8081 403 listener
        start [2001:db8::1]:3128 403 listener
        start [2002:c000:201::]:8006 403 self
        before 192.0.2.9:8006 504 -
        before 192.0.2.9:8081 504 -
        added 192.0.2.9:8006 403 self
        added 192.0.2.9:8006 200 six
        added 192.0.2.9:8081 403 listener
        added 192.0.2.9:3128 403 listener
        added [2001:db8::9]:8006 403 self
        added [2001:db8::9]:8006 200 six
        added [2001:db8::9]:8081 403 listener
        added [2001:db8::9]:3128 403 listener
        removed 192.0.2.9:8006 504 -
        other 192.0.2.77:8006 504 -
        routed 198.51.100.7:8006 403 self
        routed 198.51.100.7:8006 200 six
        routed 198.51.100.7:8081 403 listener
        routed 198.51.100.7:3128 403 listener
        """

    @Test("own addresses are denied by default, as soon as they exist")
    func followed() throws {
        let folder = try TemporaryFolder()
        try folder.write("six", as: "files/name")
        var settings = ProxySettings(trusting: Stage.pki)
        settings.setTimeouts(["connect": "500ms"])
        settings.listeners = [["address": "127.0.0.1:3129"]]
        _ = try settings.write(to: folder)
        try FileManager.default.moveItem(atPath: "\(folder.path)/config.json", toPath: "\(folder.path)/closed.json")
        settings.listeners = [["address": "0.0.0.0:3128", "allowRemoteClients": true]]
        try folder.write(String(repeating: "t", count: 32), as: "admin.token")
        settings.members["admin"] = [
            "address": "0.0.0.0:8081", "allowRemoteClients": true, "tokenFile": "admin.token",
        ]
        settings.members["access"] = ["denyAddresses": [String]()]
        _ = try settings.write(to: folder)
        try FileManager.default.moveItem(atPath: "\(folder.path)/config.json", toPath: "\(folder.path)/open.json")
        let finished = try Programs.run(
            "unshare",
            [
                "--user", "--map-root-user", "--mount", "--net", "/bin/sh", "-c", Self.script,
                try Programs.built("pinproxy"), folder.path,
            ],
            seconds: 60
        )
        let lines = finished.output.split(separator: "\n").map { line in
            let words = line.split(separator: " ", maxSplits: 3)
            let rest = words.count > 3 ? String(words[3]) : ""
            let meaning =
                rest == "six"
                ? "six"
                : rest.contains("own listeners")
                    ? "listener" : rest.contains("has \\\"self") ? "self" : "-"
            return words.prefix(3).joined(separator: " ") + " " + meaning
        }
        #expect(lines.joined(separator: "\n") == Self.expected, "\(finished.output) \(finished.errors)")
    }
}
