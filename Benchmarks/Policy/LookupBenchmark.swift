// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// `PinnedDomains.policy` for tables of different sizes.
struct LookupBenchmark {
    private static let rounds = 31
    private static let questions = 1000

    func run() throws {
        var rows = [["domains", "exact", "subdomain", "four labels below", "not pinned"]]
        for count in [10, 1000, 10_000] {
            let domains = try PinFile.load(text: Self.pinFile(count), file: "bench.json", at: 1_800_000_000).domains
            // The same number of hosts whatever the size, spread over the whole table.
            let numbers = (0..<Self.questions).map { $0 * 7919 % count }
            rows.append(
                ["\(count)"]
                    + [
                        try Self.nanoseconds(domains, numbers.map { "host-\($0).example.com" }, found: true),
                        try Self.nanoseconds(domains, numbers.map { "www.host-\($0).example.com" }, found: true),
                        try Self.nanoseconds(domains, numbers.map { "a.b.c.d.host-\($0).example.com" }, found: true),
                        try Self.nanoseconds(domains, numbers.map { "other-\($0).example.com" }, found: false),
                    ].map { Table.number($0) }
            )
        }
        Table.print(rows)
    }

    private static func nanoseconds(_ domains: PinnedDomains, _ names: [String], found: Bool) throws -> Double {
        let hosts = try names.map { try Host($0) }
        var matches = 0
        let rounds = (0..<rounds).map { _ in
            // What the request path calls, with the bytes of the host.
            Measurement.nanoseconds(20) {
                for host in hosts where domains.policy(host: host.bytes.span, isName: true, port: 443) != nil {
                    matches += 1
                }
            } / Double(hosts.count)
        }
        guard matches == (found ? rounds.count * 20 * hosts.count : 0) else {
            throw BenchmarkFault(message: "a lookup did not find what it should")
        }
        return Measurement.median(rounds)
    }

    private static func pinFile(_ count: Int) -> String {
        let pins = (1...2).compactMap { PublicKeyPin(digest: [UInt8](repeating: $0, count: 32)) }
        let list = pins.map { "\"\($0)\"" }.joined(separator: ",")
        let domains = (0..<count).map {
            "\"host-\($0).example.com\":{\"includeSubdomains\":true,\"pins\":[\(list)]}"
        }
        return "{\"version\":1,\"pinnedDomains\":{\(domains.joined(separator: ","))}}"
    }
}
