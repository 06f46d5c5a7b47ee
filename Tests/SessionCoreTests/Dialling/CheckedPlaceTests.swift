// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("An address that has to be one of the host's own", .onOwnThreads)
struct CheckedPlaceTests {
    /// `api.example.com` with the addresses that the name server gives at each question.
    private final class Place {
        let names: NameServer
        let session: TestSession
        let origin: ScriptedOrigin

        /// - Parameter lifetime: of a result, in seconds.
        init(lifetime: UInt32 = 300, _ answer: @escaping @Sendable (Int) -> [UInt32]) throws {
            names = try NameServer { _, count in .addresses(answer(count), lifetime: lifetime) }
            var configuration = SessionConfiguration()
            configuration.nameServers = names.text
            session = try TestSession(configuration)
            origin = try ScriptedOrigin(nil) { connection in
                while let request = try connection.readRequest() { try connection.respond(request.target) }
            }
        }

        func endpoint(_ host: String = TestSession.host, proxy: SessionProxy? = nil) throws -> Endpoint {
            Endpoint(
                scheme: .http,
                host: try Host(host),
                port: origin.port,
                policy: .unpinned,
                anchors: TestPKI.shared.anchors,
                generation: 1,
                proxy: proxy
            )
        }
    }

    private static let loopback: UInt32 = 0x7F00_0001
    private static let other: UInt32 = 0xC000_0201
    private static let address = IPAddress(ipv4: loopback)

    @Test("an address of the name is dialled, and no other")
    func held() throws {
        let place = try Place { _ in [Self.other, Self.loopback] }
        let endpoint = try place.endpoint().at(Self.address)
        #expect(try place.session.get(endpoint, target: "/a").text == "/a")
        // The kept connection is for the same address alone.
        #expect(try place.session.get(endpoint, target: "/b").transaction.isReusedConnection)
        let elsewhere = try place.endpoint().at(IPAddress(ipv4: 0x7F00_0002))
        #expect(try place.session.get(elsewhere).error?.isMisdirected == true)
        #expect(place.origin.connections.count == 1)
    }

    @Test("an address that the known result lacks is looked for anew, once")
    func lookedUpAnew() throws {
        let place = try Place { count in count == 0 ? [Self.other] : [Self.loopback] }
        // Makes the first result known.
        let first = try place.session.get(try place.endpoint().at(IPAddress(ipv4: 0x7F00_0009)))
        #expect(first.error?.isMisdirected == true)
        #expect(try place.session.get(try place.endpoint().at(Self.address), target: "/a").text == "/a")
        #expect(place.names.questions.count == 2)
    }

    @Test("another address is refused, and the error says which ones there are")
    func refused() throws {
        let place = try Place { _ in [Self.other] }
        let error = try #require(try place.session.get(try place.endpoint().at(Self.address)).error)
        #expect(error.isMisdirected && error.code == .addressDenied)
        #expect(error.details.contains("127.0.0.1") && error.details.contains("192.0.2.1"), "\(error.details)")
        #expect(place.origin.connections.isEmpty)
    }

    @Test("localhost is not looked up anew")
    func fixedName() throws {
        let place = try Place { _ in [Self.other] }
        #expect(try place.session.get(try place.endpoint("localhost").at(Self.address), target: "/l").text == "/l")
        let error = try place.session.get(try place.endpoint("localhost").at(IPAddress(ipv4: Self.other))).error
        #expect(error?.isMisdirected == true)
        #expect(place.names.questions.isEmpty)
    }

    @Test("an upstream proxy is asked for the address, and for none that is refused")
    func behindProxy() throws {
        let place = try Place { _ in [Self.other, Self.loopback] }
        let proxy = try HTTPSProxy(TestPKI.shared.server("127.0.0.1"), to: place.origin.port)
        let way = SessionProxy(.https, host: try Host("127.0.0.1"), port: proxy.port)
        let endpoint = try place.endpoint(proxy: way)
        #expect(try place.session.get(endpoint.at(Self.address), target: "/p").text == "/p")
        #expect(try place.session.get(endpoint.at(IPAddress(ipv4: 0x7F00_0009))).error?.isMisdirected == true)
        #expect(proxy.targets == ["CONNECT 127.0.0.1:\(place.origin.port) HTTP/1.1"])
    }

    @Test("an address behind the first sixteen is found, and dialled")
    func manyAddresses() throws {
        let place = try Place { _ in (1...40).map { Self.other + $0 } + [Self.loopback] }
        #expect(try place.session.get(try place.endpoint().at(Self.address), target: "/m").text == "/m")
    }
}
