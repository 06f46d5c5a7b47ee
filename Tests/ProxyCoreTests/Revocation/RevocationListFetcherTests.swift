// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("Revocation lists that the proxy fetches", .onOwnThreads)
struct RevocationListFetcherTests {
    private static let host = "api.example.com"
    private static let lists = "lists.example"
    private static let url = "http://lists.example/1.crl"

    /// What the server of lists answers to a path: bytes, or a script of its own.
    private enum Response: Sendable {
        case list([UInt8], fields: [String] = [])
        case status(String, fields: [String] = [])
        case script(ScriptedOrigin.Script)
    }

    /// An origin whose certificate names a list, the server of that list, and a proxy in this process.
    private final class Stage {
        let pki: TestPKI
        let server: TestServer
        let origin: ScriptedOrigin
        let lists: ScriptedOrigin
        let responses = Monitor<[String: Response]>([:])
        let events = Monitor<[String]>([])
        let folder: TemporaryFolder
        var settings: ProxySettings
        var limits: ListFetchLimits
        private var proxy: ProxyServer?

        /// - Parameters:
        ///   - urls: the distribution points of the origin's certificate.
        ///   - changeSettings: what differs from one domain with `fetch`.
        init(
            urls: [String] = [url],
            _ changeSettings: (inout ProxySettings) -> Void = { _ in },
            limits change: (inout ListFetchLimits) -> Void = { _ in }
        ) throws {
            pki = try TestPKI()
            var builder = CertificateBuilder.server(hosts: [host], validity: TestPKI.validity)
            builder.distributionPoints = urls
            server = try pki.server(builder)
            origin = try ScriptedOrigin(server) { _ in OriginResponse.text("hello") }
            lists = try ScriptedOrigin(nil) { [responses] connection in
                while let request = try connection.readRequest() {
                    switch responses.with({ $0[request.target] }) {
                    case .list(let bytes, let fields):
                        let head = (["HTTP/1.1 200 OK", "Content-Length: \(bytes.count)"] + fields)
                        try connection.write(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + bytes)
                    case .status(let status, let fields): try connection.respond("", status: status, fields: fields)
                    case .script(let script): return try script(connection)
                    case nil: try connection.respond("", status: "404 Not Found")
                    }
                }
            }
            folder = try TemporaryFolder()
            settings = ProxySettings(trusting: pki)
            settings.serve(host, server, at: origin.port)
            settings.pinnedDomains[host]?["revocation"] = ["fetch": true]
            settings.resolve(RevocationListFetcherTests.lists, to: lists.port)
            settings.members["log"] = ["tasks": "off"]
            changeSettings(&settings)
            limits = ListFetchLimits()
            change(&limits)
            respond(.list(try list()))
            try start()
        }

        deinit { stop() }

        func respond(_ response: Response, to path: String = "/1.crl") { responses.with { $0[path] = response } }

        func list(
            _ revoked: [Certificate] = [],
            by issuer: Identity? = nil,
            _ change: (inout RevocationListBuilder) -> Void = { _ in }
        ) throws -> [UInt8] {
            let now = Int64(Date().timeIntervalSince1970)
            var builder = RevocationListBuilder(validity: (now - 3600)..<(now + 3600), revoked: revoked)
            change(&builder)
            return try builder.der(issuer: issuer ?? pki.intermediate)
        }

        private func parts(every: Milliseconds?) throws -> PolicyParts {
            let outcome = ConfigurationLoader.load(path: try settings.write(to: folder))
            var parts = try #require(outcome.parts, "\(outcome.issues)")
            if let every { parts.configuration.revocationLists.every = every }
            return parts
        }

        func start(every: Milliseconds? = nil) throws {
            var monitoring = PinMonitor.Settings()
            monitoring.log = { [events] line, _, _ in events.with { $0.append(line.json) } }
            proxy = try ProxyServer(parts: parts(every: every), monitoring: monitoring, fetching: limits)
        }

        func stop() {
            proxy?.stop()
            proxy = nil
        }

        func reload(every: Milliseconds? = nil) throws {
            try #require(proxy).reload(parts(every: every))
        }

        func client() throws -> TestClient {
            let address = try #require(proxy?.listening.first.flatMap { AddressAndPort($0.address) })
            return try TestClient(port: address.port)
        }

        func get(on client: TestClient? = nil) throws -> HTTPMessage {
            let client = try client ?? self.client()
            try client.send(ProxyUnderTest.request("GET", "http://\(host)/"))
            return try client.readResponse()
        }

        /// The paths that the server of lists was asked for.
        var asked: [String] { lists.requests.map(\.target) }

        func event(_ word: String) throws -> String {
            try events.wait(for: "an event about \(word)") { $0.first { $0.contains(word) } }
        }

        func refusal(_ words: String) throws {
            var response = try get()
            // A request may have waited for a fetch that had begun before the server of lists changed.
            for _ in 0..<20 where !response.text.contains(words) { response = try get() }
            #expect(response.status == 502 && response.problemCode == "certificate_revoked", "\(response)")
            #expect(response.text.contains(words), "\(words): \(response.text)")
            #expect(origin.applicationBytes == 0)
        }
    }

    // MARK: The first request

    @Test("the first request waits for the list, and passes")
    func firstRequest() throws {
        let stage = try Stage()
        #expect(try stage.get().text == "hello")
        #expect(stage.asked == ["/1.crl"])
        let request = stage.lists.requests[0]
        #expect(request["Host"] == Self.lists && request["Accept-Encoding"] == "identity")
        #expect(try stage.event("\"revocation_list\"").contains(Self.url))
        let records = try stage.origin.wait(for: "two connections") { $0.count == 2 ? $0 : nil }
        #expect(records[0].applicationBytes == 0 && records[1].requests.count == 1)
        for _ in 0..<2 { #expect(try stage.get().text == "hello") }
        #expect(stage.asked.count == 1)
    }

    @Test("requests of two workers wait for one fetch together")
    func together() throws {
        let gate = Gate()
        let stage = try Stage { $0.members["workers"] = 2 }
        let list = try stage.list()
        stage.respond(
            .script { connection in
                try gate.pass()
                try connection.write(
                    Array("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: \(list.count)\r\n\r\n".utf8) + list
                )
            }
        )
        let clients = try (0..<8).map { _ in try stage.client() }
        for client in clients { try client.send(ProxyUnderTest.request("GET", "http://\(Self.host)/")) }
        try stage.origin.wait(for: "eight refused handshakes") { $0.count == 8 ? true : nil }
        gate.open()
        for client in clients { #expect(try client.readResponse().text == "hello") }
        #expect(stage.asked == ["/1.crl"])
    }

    @Test("with HTTP/2 the shared connection waits for the list")
    func http2() throws {
        let stage = try Stage { $0.hosts[Self.host]?["httpVersion"] = "2" }
        #expect(try stage.get().text == "hello")
        stage.stop()
        stage.respond(.list(try stage.list([stage.server.certificate])))
        try stage.start()
        let refused = try stage.get()
        #expect(refused.problemCode == "certificate_revoked", "\(refused)")
    }

    @Test("a revoked certificate is refused, and no byte of the request is sent")
    func revoked() throws {
        let stage = try Stage()
        stage.respond(.list(try stage.list([stage.server.certificate])))
        try stage.refusal("revoked")
    }

    @Test("a server with a wrong chain or pin has no list fetched")
    func untrusted() throws {
        let stage = try Stage {
            $0.pin(Self.host, to: .unrelated(5), with: ["revocation": ["fetch": true]])
        }
        #expect(try stage.get().problemCode == "pin_mismatch")
        stage.settings.anchors = [try TestPKI("other").root.certificate]
        try stage.reload()
        #expect(try stage.get().problemCode == "certificate_untrusted")
        #expect(stage.lists.connections.isEmpty)
    }

    // MARK: What is refused

    @Test("an unusable list is rejected, with the reason in response and event")
    func badLists() throws {
        let stage = try Stage(limits: { $0.retry = 0 })
        let stranger = try TestPKI().intermediate
        for (bytes, reason) in [
            (try stage.list(by: stranger), "not signed with the key"),
            (
                try stage.list { $0.issuingDistributionPoint = "fullname:URI:http://lists.example/2.crl" },
                "other certificates"
            ),
            (try stage.list { $0.nextUpdate = $0.thisUpdate + 1 }, "out of date"),
            (Array("<html>".utf8), "not a revocation list"), ([], "empty"),
        ] {
            stage.respond(.list(bytes))
            try stage.refusal(reason)
            _ = try stage.event(reason)
        }
        stage.respond(.list(try stage.list(), fields: ["Content-Encoding: gzip"]))
        try stage.refusal("content coding")
        stage.respond(.status("500 Oops"))
        try stage.refusal("status 500")
        stage.respond(.list(try stage.list { $0.issuingDistributionPoint = "fullname:URI:\(Self.url)" }))
        #expect(try stage.get().text == "hello")
    }

    @Test("an endless, long or missing list holds a connection for bounded time")
    func endless() throws {
        let stage = try Stage(limits: {
            $0.listBytes = 64 << 10
            $0.total = Milliseconds(1500)
            $0.retry = 0
        })
        stage.respond(
            .script { connection in
                try connection.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
                while true { try connection.write([UInt8](repeating: 0x30, count: 16 << 10)) }
            }
        )
        try stage.refusal("longer than 64 KB")
        stage.respond(.list([UInt8](repeating: 0x30, count: 1 << 20)))
        try stage.refusal("longer than 64 KB")
        let end = Gate()
        defer { end.open() }
        stage.respond(
            .script { connection in
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nX")
                try end.pass()
            }
        )
        try stage.refusal("timeouts.total")
        // The connection waits no longer than timeouts.connect for it.
        stage.settings.setTimeouts(["connect": "300ms"])
        stage.limits.total = Milliseconds(60_000)
        stage.stop()
        try stage.start()
        try stage.refusal("It is being fetched")
    }

    @Test("a failed fetch is not repeated for each request")
    func backOff() throws {
        let stage = try Stage()
        stage.respond(.status("503 Service Unavailable"))
        try stage.refusal("status 503")
        stage.respond(.list(try stage.list()))
        try stage.refusal("the next attempt is made in")
        #expect(stage.asked.count == 1)
        // A reload may let in what was refused.
        try stage.reload()
        #expect(try stage.get().text == "hello")
    }

    @Test("the other distribution points are asked when the first fails")
    func alternatives() throws {
        let stage = try Stage(urls: ["http://lists.example/gone", "ldap://lists.example/x", Self.url])
        #expect(try stage.get().text == "hello")
        #expect(stage.asked == ["/gone", "/1.crl"])
    }

    // MARK: Where lists are fetched

    @Test("redirects: three to http are followed, each under the rules for hosts and addresses")
    func redirects() throws {
        let stage = try Stage(
            {
                $0.pin("pinned.example", to: .unrelated(7))
                $0.hosts["upgraded.example"] = ["upgrade": true]
                $0.members["access"] = ["denyHosts": ["denied.example"]]
            },
            limits: { $0.retry = 0 }
        )
        func redirect(_ path: String, to target: String) {
            stage.respond(.status("302 Found", fields: ["Location: \(target)"]), to: path)
        }
        stage.respond(.list(try stage.list()), to: "/list")
        redirect("/c", to: "http://\(Self.lists)/list")
        redirect("/b", to: "/c")
        redirect("/a", to: "/b")
        for (target, words) in [
            ("http://pinned.example/", "a pin file names it"), ("http://upgraded.example/", "upgrade"),
            ("http://denied.example/", "denied.example may not be reached"),
            ("http://127.0.0.1:\(stage.lists.port)/list", "may not be dialled"),
            ("https://\(Self.lists)/list", "is not http"),
            ("ftp://lists.example/list", "no valid URL"), ("/a", "more than 3 redirects"),
        ] {
            redirect("/1.crl", to: target)
            try stage.refusal(words)
        }
        redirect("/1.crl", to: "/b")
        #expect(try stage.get().text == "hello")
    }

    @Test("unpinnedHosts does not apply to a list; pin files and access do")
    func rules() throws {
        let stage = try Stage { $0.members["unpinnedHosts"] = "deny" }
        #expect(try stage.get().text == "hello")
        let denied = try Stage { $0.members["access"] = ["denyHosts": [Self.lists]] }
        try denied.refusal("\(Self.lists) may not be reached")
        let named = try Stage { $0.pin(Self.lists, to: .unrelated(7)) }
        try named.refusal("a pin file names it")
        // Without the fixed address it is a name that nobody knows.
        let address = try Stage(urls: ["http://127.0.0.1:9/1.crl"])
        try address.refusal("may not be dialled")
        for stage in [denied, named, address] { #expect(stage.lists.connections.isEmpty) }
    }

    // MARK: Renewal

    @Test("a kept connection ends when a new list revokes its certificate")
    func revokedLater() throws {
        let stage = try Stage(limits: { $0.least = 50 })
        try stage.reload(every: Milliseconds(100))
        let client = try stage.client()
        #expect(try stage.get(on: client).text == "hello")
        let other = try stage.pki.server(Self.host)
        stage.respond(.list(try stage.list([other.certificate]) { $0.thisUpdate += 1 }))
        try stage.events.wait(for: "the second list") {
            $0.filter { $0.contains("\"revocation_list\"") }.count == 2 ? true : nil
        }
        #expect(try stage.get(on: client).text == "hello")
        #expect(stage.origin.connections.count == 2)
        stage.respond(.list(try stage.list([stage.server.certificate]) { $0.thisUpdate += 2 }))
        try stage.events.wait(for: "the third list") {
            $0.filter { $0.contains("\"revocation_list\"") }.count == 3 ? true : nil
        }
        let refused = try stage.get(on: client)
        #expect(refused.status == 502 && refused.problemCode == "certificate_revoked", "\(refused)")
        #expect(stage.origin.connections[1].requests.count == 2)
    }

    @Test("an older list replaces no newer one, and the last good one stays")
    func lastGood() throws {
        let stage = try Stage(limits: {
            $0.least = 50
            $0.retry = 50
        })
        try stage.reload(every: Milliseconds(100))
        stage.respond(.list(try stage.list() { $0.number = 7 }))
        #expect(try stage.get().text == "hello")
        stage.respond(.list(try stage.list([stage.server.certificate]) { $0.number = 6 }))
        #expect(try stage.event("older than the one that is held").contains("stays in force until its end"))
        #expect(try stage.get().text == "hello")
        stage.respond(.status("503 Service Unavailable"))
        _ = try stage.event("status 503")
        #expect(try stage.get().text == "hello")
    }

    @Test("a server's validators are sent, and a 304 confirms the list")
    func validators() throws {
        let stage = try Stage(limits: { $0.least = 50 })
        try stage.reload(every: Milliseconds(100))
        let date = "Thu, 26 Nov 2026 00:00:00 GMT"
        stage.respond(.list(try stage.list(), fields: ["ETag: \"1\"", "Last-Modified: \(date)"]))
        #expect(try stage.get().text == "hello")
        stage.respond(
            .script { connection in
                repeat {
                    try connection.write("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")
                } while try connection.readRequest() != nil
            }
        )
        let requests = try stage.lists.wait(for: "three requests") { records in
            let requests = records.flatMap(\.requests)
            return requests.count >= 3 ? requests : nil
        }
        #expect(requests[0]["If-None-Match"] == nil)
        for request in requests[1..<3] {
            #expect(request["If-None-Match"] == "\"1\"" && request["If-Modified-Since"] == date)
        }
        #expect(try stage.get().text == "hello")
    }

    @Test("a request continues under a reload's policy after its list")
    func reloadDuringFetch() throws {
        let stage = try Stage()
        let (gate, list) = (Gate(), try stage.list())
        stage.respond(
            .script { connection in
                try gate.pass()
                try connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: \(list.count)\r\n\r\n".utf8) + list)
                connection.readToEnd()
            }
        )
        let client = try stage.client()
        try client.send(ProxyUnderTest.request("GET", "http://\(Self.host)/"))
        try stage.lists.wait(for: "the fetch") { $0.first?.requests.isEmpty == false ? true : nil }
        try stage.reload()
        gate.open()
        #expect(try client.readResponse().text == "hello")
    }

    // MARK: The folder

    @Test("after a restart the private folder serves without the network")
    func restart() throws {
        let stage = try Stage { $0.members["crls"] = ["folder": "lists/fetched", "every": "1h"] }
        #expect(try stage.get().text == "hello")
        stage.stop()
        let path = "\(stage.folder.path)/lists/fetched"
        let names = try FileManager.default.contentsOfDirectory(atPath: path)
        #expect(names.count == 1 && names[0].hasSuffix(".crl"))
        for (path, mode) in [(path, 0o700), ("\(path)/\(names[0])", 0o600)] {
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            #expect(attributes[.posixPermissions] as? Int == mode)
        }
        stage.respond(.status("503 Service Unavailable"))
        try stage.start()
        #expect(try stage.get().text == "hello")
        #expect(stage.asked.count == 1)
    }

    @Test("many lists come from the folder together")
    func manyFromTheFolder() throws {
        let folder = try TemporaryFolder()
        let disk = ListFolder(path: "\(folder.path)/lists")
        try disk.prepare()
        let pki = try TestPKI()
        let list = try RevocationListBuilder(validity: TestPKI.validity).der(issuer: pki.intermediate)
        let needs = try (0..<5).map { number in
            var builder = CertificateBuilder.server(hosts: [Self.host], validity: TestPKI.validity)
            builder.distributionPoints = ["http://\(Self.lists)/\(number)"]
            let server = try pki.server(builder)
            let need = try #require(RevocationListNeed(server.certificate, issuer: pki.intermediate.certificate))
            try disk.write(list, for: need.key)
            return need
        }
        var configuration = Configuration()
        configuration.revocationLists.folder = disk.path
        let parts = PolicyParts(
            configuration: configuration,
            pinnedDomains: PinnedDomains(),
            trustAnchors: pki.anchors
        )
        let fetcher = RevocationListFetcher(snapshot: PolicySnapshot(parts, generation: 1))
        defer { fetcher.stop() }
        let outcome = Monitor<String??>(nil)
        fetcher.source.obtain(needs) { fault in outcome.with { $0 = .some(fault) } }
        #expect(try outcome.wait(for: "five lists") { $0 } == String?.none)
        #expect(fetcher.store.figures(at: 1_800_000_000).current == 5)
    }

    @Test("damaged or foreign files in the folder are not used")
    func damagedFolder() throws {
        let stage = try Stage { $0.members["crls"] = ["folder": "lists"] }
        #expect(try stage.get().text == "hello")
        stage.stop()
        let path = "\(stage.folder.path)/lists"
        let name = try #require(FileManager.default.contentsOfDirectory(atPath: path).first)
        let stranger = try TestPKI().intermediate
        stage.respond(.list(try stage.list([stage.server.certificate])))
        for bytes in [Array("damaged".utf8), [], try stage.list(by: stranger)] {
            try stage.folder.write(bytes: bytes, as: "lists/\(name)")
            try stage.start()
            #expect(try stage.get().problemCode == "certificate_revoked")
            stage.stop()
        }
        #expect(stage.asked.count == 4)
    }

    @Test("a folder that others may write is not used, with an event")
    func openFolder() throws {
        let stage = try Stage {
            $0.members["crls"] = ["folder": "lists"]
            $0.files["lists/README"] = "mine"
        }
        stage.stop()
        let path = "\(stage.folder.path)/lists"
        chmod(path, 0o777)
        try stage.start()
        #expect(try stage.get().text == "hello")
        #expect(try stage.event("revocation_list_folder").contains("others may write"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: path) == ["README"])
    }

    @Test("the folder is bounded, and drops the oldest files")
    func folderBounds() throws {
        let folder = try TemporaryFolder()
        let disk = ListFolder(path: "\(folder.path)/lists")
        try disk.prepare()
        let pki = try TestPKI()
        let needs = try (0..<3).map { number in
            var builder = CertificateBuilder.server(hosts: [Self.host], validity: TestPKI.validity)
            builder.distributionPoints = ["http://lists.example/\(number)"]
            let server = try pki.server(builder)
            return try #require(RevocationListNeed(server.certificate, issuer: pki.intermediate.certificate))
        }
        for (number, need) in needs.enumerated() {
            try disk.write([UInt8](repeating: 0, count: 100), for: need.key)
            let times = [timespec(tv_sec: 1000 + number, tv_nsec: 0), timespec(tv_sec: 1000 + number, tv_nsec: 0)]
            #expect(utimensat(AT_FDCWD, "\(disk.path)/\(need.key.hexadecimal).crl", times, 0) == 0)
        }
        var limits = RevocationListStore.Limits()
        limits.bytes = 250
        disk.trim(to: limits)
        #expect(disk.read(needs[0].key, limit: 100) == nil && disk.read(needs[1].key, limit: 100)?.count == 100)
        #expect(disk.read(needs[1].key, limit: 99) == nil)
        limits.lists = 1
        disk.trim(to: limits)
        #expect(disk.read(needs[1].key, limit: 100) == nil && disk.read(needs[2].key, limit: 100)?.count == 100)
    }
}
