// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Reload: under load", .onOwnThreads)
struct ReloadLoadTests {
    /// One client's part: requests over connections that it keeps for a while; what it finds wrong comes back.
    private static func play(_ port: UInt16, seed: Int, until isOver: Monitor<Bool>) throws -> [String] {
        var wrong: [String] = []
        var round = 0
        while !isOver.with({ $0 }) {
            let client = try TestClient(port: port)
            for _ in 0..<10 {
                round += 1
                let path = "/\(seed).\(round)"
                let body = round % 3 == 0 ? String(repeating: "b", count: 20_000) : nil
                try client.send(
                    ProxyUnderTest.request(body == nil ? "GET" : "POST", "http://\(Stage.host)\(path)", body: body)
                )
                let response = try client.readResponse(to: body == nil ? "GET" : "POST")
                if response.status != 200 || response.text != "\(path) \(body?.utf8.count ?? 0)" {
                    wrong.append("\(path) got \(response.startLine) \(response.text.prefix(300))")
                }
            }
        }
        return wrong
    }

    @Test("no request fails over many reloads, and old connections close")
    func underLoad() throws {
        let stage = try Stage { connection in
            while let request = try connection.readRequest() {
                try connection.respond("\(request.target) \(request.body.count)")
            }
        }
        let proxy = stage.proxy
        let port = proxy.port
        let isOver = Monitor(false)
        let results = Monitor<[Result<[String], any Error>]>([])
        for seed in 0..<6 {
            Thread.detachNewThread {
                let result = Result { try Self.play(port, seed: seed, until: isOver) }
                results.with { $0.append(result) }
            }
        }
        defer { isOver.with { $0 = true } }
        for _ in 0..<15 {
            let count = stage.origin.requests.count
            try proxy.hangUp()
            // Some traffic in each generation.
            try stage.origin.wait(for: "requests") { records in
                records.reduce(0) { $0 + $1.requests.count } > count + 10 ? true : nil
            }
        }
        isOver.with { $0 = true }
        let wrong = try results.wait(for: "the clients") { results in
            results.count == 6 ? try results.flatMap { try $0.get() } : nil
        }
        #expect(wrong.isEmpty, "\(wrong.prefix(3))")
        // The connections that are open at the origin belong to the last generation: none is left after one more
        // reload.
        try proxy.hangUp()
        try stage.origin.waitForClosed()
        let descriptors = try proxy.descriptorCount()
        for _ in 0..<5 { try proxy.hangUp() }
        try Patience.poll(for: "as few descriptors as before") {
            try proxy.descriptorCount() <= descriptors ? true : nil
        }
        #expect(proxy.events("reloadFailed").isEmpty)
        #expect(try proxy.terminate().exitCode == 0)
    }

    @Test("reloads during a stop, and a stop during reloads, end with 0")
    func whileStopping() throws {
        for _ in 0..<5 {
            let stage = try Stage { OriginResponse.text($0.target) }
            #expect(try stage.get().status == 200)
            stage.proxy.signal(SIGHUP)
            stage.proxy.signal(SIGHUP)
            stage.proxy.signal(SIGTERM)
            stage.proxy.signal(SIGHUP)
            #expect(try stage.proxy.waitForExit().exitCode == 0)
        }
    }
}
