// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPCaching
@testable import ProxyConfiguration
@testable import ProxyCore

/// A proxy in this process, whose disk the test holds up.
@Suite("Requests that wait for the cache's disk", .onOwnThreads)
struct DiskWaitTests {
    private static let host = "api.example.com"

    /// What a stored response is waited for: the index, and then its file.
    enum Wait: CaseIterable { case index, file }

    enum Change: CaseIterable {
        case none, pins, denied, uncached

        /// The problem that the request gets under the policy of the reload.
        var problem: String? {
            switch self {
            case .none, .uncached: nil
            case .pins: "pin_mismatch"
            case .denied: "host_denied"
            }
        }
    }

    /// Occupies the threads that do the work, until the gate opens.
    private func hold(_ disk: DiskStore, _ wait: Wait, _ gate: Gate) throws {
        let path = Array("/".utf8)
        let key = CacheKey(method: .get, origin: Origin(scheme: .http, host: try Host("x")), target: path.span)
        let isHeld = Latch(count: wait == .index ? 1 : 2)
        let deliver: Delivery = { _ in
            isHeld.countDown()
            gate.hold()
        }
        switch wait {
        case .index: disk.entries(for: key, deliver: deliver) { _ in }
        case .file:
            for number in 1...2 as ClosedRange<UInt64> {
                disk.open(StoredFile(number: .max - number, length: 1, checksum: 0), deliver: deliver) { _ in }
            }
        }
        isHeld.wait()
    }

    @Test(
        "a stored response found after a reload is subject to its policy",
        arguments: Wait.allCases,
        Change.allCases
    )
    func reload(wait: Wait, change: Change) throws {
        let pki = try TestPKI()
        let identity = try pki.server(Self.host)
        // More than the memory takes.
        let body = String(repeating: "b", count: 300_000)
        let origin = try ScriptedOrigin(identity) { _ in
            OriginResponse.text(body, fields: ["Cache-Control: max-age=3600"])
        }
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: pki)
        settings.serve(Self.host, identity, at: origin.port)
        settings.members = ["workers": 1, "log": ["tasks": "off"]]
        settings.members["cache"] = ["memory": "1MB", "disk": ["path": "\(folder.path)/cache", "size": "100MB"]]
        func parts() throws -> PolicyParts {
            let outcome = ConfigurationLoader.load(path: try settings.write(to: folder))
            return try #require(outcome.parts, "\(outcome.issues)")
        }
        let server = try ProxyServer(parts: parts())
        defer { server.stop() }
        let disk = try #require(server.cache.current?.store.disk)
        let port = try #require(AddressAndPort(server.listening[0].address)).port
        func send(_ request: String = ProxyUnderTest.request("GET", "http://\(Self.host)/")) throws -> TestClient {
            let client = try TestClient(port: port)
            try client.send(request)
            return client
        }
        #expect(try send().readResponse().status == 200)
        // The worker gives the body to the disk soon after the client has its end.
        try Patience.poll(for: "the stored response") {
            disk.settle()
            return try send().readResponse()["Cache-Status"]?.contains("hit") == true ? true : nil
        }

        let gate = Gate()
        defer { gate.open() }
        try hold(disk, wait, gate)
        let client = try send()
        // The one worker has taken what was sent to it before.
        #expect(try send("TRACE / HTTP/1.1\r\nHost: nowhere\r\n\r\n").readResponse(to: "TRACE").status == 405)
        switch change {
        case .none: break
        case .pins: settings.pin(Self.host, to: .unrelated(2))
        case .denied: settings.members["access"] = ["denyHosts": [Self.host]]
        case .uncached: settings.hosts[Self.host]?["cache"] = ["requestPolicy": "reloadIgnoringLocalCacheData"]
        }
        try server.reload(parts())
        gate.open()
        let response = try client.readResponse()
        #expect(response.problemCode == change.problem)
        #expect(response.status == (change.problem == nil ? 200 : change == .denied ? 403 : 502))
        #expect(origin.requests.count == (change == .uncached ? 2 : 1))
    }

    /// Whether the kernel has the first of these bytes of the one stored body.
    private static func hasInMemory(_ range: Range<Int>, _ folder: TemporaryFolder) throws -> Bool {
        let bodies = "\(folder.path)/cache/bodies"
        let names = try FileManager.default.subpathsOfDirectory(atPath: bodies)
        let descriptor = open("\(bodies)/\(try #require(names.first { $0.contains("/") }))", O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        return FileBytes(descriptor, range).inMemory.count > 0
    }

    @Test("a body that has left the kernel's memory alone waits for the disk")
    func dropped() throws {
        let pki = try TestPKI()
        let identity = try pki.server(Self.host)
        let body = patternBytes(24 << 20)
        // A body that the disk falls too far behind with is not stored: a piece is sent when the one before is written.
        let written = Monitor(0)
        let origin = try ScriptedOrigin(identity) { connection in
            while try connection.readRequest() != nil {
                try connection.write(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: \(body.count)\r\n\r\n"
                )
                for piece in stride(from: 0, to: body.count, by: 1 << 20) {
                    // What has come with the head is not counted.
                    try written.wait(for: "the disk") { $0 >= piece - (64 << 10) ? () : nil }
                    try connection.write(Array(body[piece..<piece + 1 << 20]))
                }
            }
        }
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: pki)
        settings.serve(Self.host, identity, at: origin.port)
        settings.members = ["workers": 1, "log": ["tasks": "off"]]
        settings.members["cache"] = ["memory": "1MB", "disk": ["path": "\(folder.path)/cache", "size": "400MB"]]
        let outcome = ConfigurationLoader.load(path: try settings.write(to: folder))
        let server = try ProxyServer(parts: try #require(outcome.parts, "\(outcome.issues)"))
        defer { server.stop() }
        let disk = try #require(server.cache.current?.store.disk)
        let port = try #require(AddressAndPort(server.listening[0].address)).port
        let request = ProxyUnderTest.request("GET", "http://\(Self.host)/")
        let first = try TestClient(port: port)
        try first.send(request)
        let stored = try first.readBody(of: first.readResponseHead()) { count in
            disk.settle()
            written.with { $0 += count }
        }
        #expect(firstDifference(stored.body, body) == nil)
        // The worker gives the end to the disk soon after the client has it.
        try Patience.poll(for: "the body to be stored") {
            disk.settle()
            try first.send(
                ProxyUnderTest.request("HEAD", "http://\(Self.host)/", fields: ["Cache-Control: only-if-cached"])
            )
            return try first.readResponse(to: "HEAD").status == 200 ? true : nil
        }
        // The socket takes a part, and waits for the client.
        let client = try TestClient(port: port, receiveBuffer: 4096)
        try client.send(request)
        let head = try client.readResponseHead()
        #expect(head["Cache-Status"]?.contains("hit") == true)

        let gate = Gate()
        defer { gate.open() }
        try hold(disk, .file, gate)
        #expect(try folder.dropFromPageCache() > 0)
        // A filesystem in memory keeps it.
        let isDropped = try !Self.hasInMemory(body.count - (1 << 20)..<body.count, folder)
        let reading = Monitor<Result<[UInt8], any Error>?>(nil)
        // From here on the thread alone uses it.
        nonisolated(unsafe) let reader = client
        Thread.detachNewThread {
            let result = Result { try reader.readBody(of: head).body }
            reading.with { $0 = result }
        }
        for _ in 0..<50 {
            let other = try TestClient(port: port)
            try other.send("TRACE / HTTP/1.1\r\nHost: nowhere\r\n\r\n")
            #expect(try other.readResponse(to: "TRACE").status == 405)
        }
        #expect(reading.read { $0 == nil } || !isDropped)
        gate.open()
        #expect(firstDifference(try reading.wait(for: "the body") { $0 }.get(), body) == nil)
        #expect(origin.requests.count == 1)
    }
}
