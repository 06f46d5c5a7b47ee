// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// An IPv4-mapped IPv6 literal is the IPv4 address that it maps (RFC 4291, section 2.5.5.2): every rule for one spelling
/// of an address holds for all of them.
@Suite("One address in every spelling", .onOwnThreads)
struct AddressFormTests {
    private static let address = "127.0.0.1"

    /// As a URL has it.
    private static let spellings = [
        "127.0.0.1", "127.0.0.1.", "[::ffff:127.0.0.1]", "[::FFFF:7F00:1]", "[0:0:0:0:0:ffff:7f00:0001]",
        "[0::0:ffff:127.0.0.1]",
    ]

    /// As a file has it.
    private static let names = ["127.0.0.1", "::ffff:127.0.0.1", "[::ffff:7f00:1]"]

    /// An origin with a certificate for the address, and a proxy that may dial it.
    private struct Place {
        let origin: ScriptedOrigin
        let proxy: ProxyUnderTest

        init(_ change: (inout ProxySettings, _ server: TestServer, _ port: UInt16) -> Void) throws {
            let server = try Stage.pki.server(AddressFormTests.address)
            let origin = try ScriptedOrigin(server) { OriginResponse.text("\($0.target)") }
            self.origin = origin
            var settings = ProxySettings(trusting: Stage.pki)
            settings.members["access"] = [
                "denyAddresses": [String](), "connectPorts": [Int(origin.port)],
            ]
            change(&settings, server, origin.port)
            proxy = try ProxyUnderTest(settings)
        }

        func get(_ host: String, scheme: String = "http") throws -> HTTPMessage {
            try proxy.get("\(scheme)://\(host):\(origin.port)/x", fields: ["Authorization: Bearer secret"])
        }

        func connect(_ host: String) throws -> HTTPMessage {
            let authority = "\(host):\(origin.port)"
            let client = try proxy.connect()
            try client.send("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n\r\n")
            return try client.readResponseHead(to: "CONNECT")
        }
    }

    @Test("a pinned address is reached over TLS under its pins", arguments: names)
    func pins(name: String) throws {
        let right = try Place { settings, server, _ in settings.pin(name, to: server.pin) }
        let wrong = try Place { settings, _, _ in settings.pin(name, to: .unrelated(2)) }
        for spelling in Self.spellings {
            for scheme in ["http", "https"] {
                let response = try right.get(spelling, scheme: scheme)
                #expect(response.status == 200 && response.text == "/x", "\(scheme) \(spelling): \(response.startLine)")
                let refused = try wrong.get(spelling, scheme: scheme)
                #expect(
                    refused.status == 502 && refused.problemCode == "pin_mismatch",
                    "\(scheme) \(spelling): \(refused.startLine)"
                )
            }
        }
        #expect(wrong.origin.applicationBytes == 0)
        let isTLS = right.origin.connections.allSatisfy { $0.isEstablished }
        #expect(isTLS)
    }

    @Test("a pinned address gets no blind tunnel", arguments: names)
    func tunnels(name: String) throws {
        let pinned = try Place { settings, server, _ in
            settings.pin(name, to: server.pin)
            settings.members["defaults"] = ["connect": "tunnel"]
        }
        let open = try Place { settings, _, _ in settings.members["defaults"] = ["connect": "tunnel"] }
        for spelling in Self.spellings {
            let refused = try pinned.connect(spelling)
            #expect(refused.status == 403, "\(spelling): \(refused.startLine)")
            #expect(try open.connect(spelling).status == 200, "\(spelling)")
        }
        #expect(pinned.origin.connections.isEmpty)
    }

    @Test("access rules and host entries apply to it", arguments: names)
    func rules(name: String) throws {
        let denied = try Place { settings, _, port in
            settings.members["access"] = ["denyAddresses": [String](), "denyHosts": [name]]
        }
        let allowed = try Place { settings, _, _ in
            settings.members["access"] = ["denyAddresses": [String](), "allowHosts": [name]]
            settings.hosts[name] = ["upgrade": true]
        }
        let listener = try Place { settings, _, _ in
            settings.listeners[0]["allowHosts"] = [name]
            settings.hosts[name] = ["upgrade": true]
        }
        for spelling in Self.spellings {
            let refused = try denied.get(spelling)
            #expect(refused.status == 403 && refused.problemCode == "host_denied", "\(spelling): \(refused.startLine)")
            for place in [allowed, listener] {
                let response = try place.get(spelling)
                #expect(response.status == 200 && response.text == "/x", "\(spelling): \(response.startLine)")
            }
        }
        #expect(denied.origin.connections.isEmpty)
    }

    @Test("a gateway's upstream is subject to the pins of its address", arguments: spellings)
    func gateway(spelling: String) throws {
        for (pin, status) in [(nil, 200), (PublicKeyPin.unrelated(2), 502)] as [(PublicKeyPin?, Int)] {
            let place = try Place { settings, server, port in
                settings.pin(Self.address, to: pin ?? server.pin)
                settings.listeners.append([
                    "address": "127.0.0.1:0", "mode": "gateway", "upstream": "https://\(spelling):\(port)",
                ])
            }
            let response = try place.proxy.exchange(
                "GET /x HTTP/1.1\r\nHost: 127.0.0.1:\(place.proxy.port(of: 1))\r\n\r\n",
                on: 1
            )
            #expect(response.status == status, "\(response.startLine)")
            if pin != nil { #expect(place.origin.applicationBytes == 0) }
        }
    }

    @Test("a gateway's literal upstream excepts that address in every spelling", arguments: spellings)
    func gatewayException(spelling: String) throws {
        let place = try Place { settings, server, port in
            settings.members["access"] = nil
            settings.listeners.append([
                "address": "127.0.0.1:0", "mode": "gateway", "upstream": "https://\(spelling):\(port)",
            ])
        }
        let response = try place.proxy.exchange(
            "GET /x HTTP/1.1\r\nHost: 127.0.0.1:\(place.proxy.port(of: 1))\r\n\r\n",
            on: 1
        )
        #expect(response.text == "/x", "\(response.startLine)")
        #expect(try place.get(spelling, scheme: "https").problemCode == "address_denied")
    }

    @Test("a followed redirect is subject to the pins of its address", arguments: spellings)
    func redirects(spelling: String) throws {
        for (pin, code) in [(nil, nil), (PublicKeyPin.unrelated(2), "pin_mismatch")] as [(PublicKeyPin?, String?)] {
            let server = try Stage.pki.server(Self.address)
            let target = try ScriptedOrigin(server) { OriginResponse.text($0.target) }
            let stage = try Stage({
                $0.members["access"] = ["denyAddresses": [String]()]
                $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
                $0.pin(Self.address, to: pin ?? server.pin)
            }) { _ in
                OriginResponse.text(
                    "",
                    status: "302 Found",
                    fields: ["Location: http://\(spelling):\(target.port)/end"]
                )
            }
            let response = try stage.get()
            #expect(response.problemCode == code && (code != nil || response.text == "/end"), "\(response.text)")
            if code != nil { #expect(target.applicationBytes == 0) }
        }
    }

    @Test("fetch and pins verify apply its pins", arguments: spellings)
    func tools(spelling: String) throws {
        let server = try Stage.pki.server(Self.address)
        let origin = try ScriptedOrigin(server) { OriginResponse.text($0.target) }
        for (pin, code) in [(server.pin, 0), (.unrelated(2), 77)] as [(PublicKeyPin, Int32)] {
            let folder = try TemporaryFolder()
            var settings = ProxySettings(trusting: Stage.pki)
            settings.members["access"] = ["denyAddresses": [String]()]
            settings.pin(Self.address, to: pin)
            let path = try settings.write(to: folder)
            for scheme in ["http", "https"] {
                let url = "\(scheme)://\(spelling):\(origin.port)/x"
                let fetched = try pinproxy("fetch", "--config", path, url)
                #expect(fetched.exitCode == code, "\(url): \(fetched.errors)")
            }
            let verified = try pinproxy("pins", "verify", "--config", path, "\(spelling):\(origin.port)")
            #expect((verified.exitCode == 0) == (code == 0), "\(verified.output) \(verified.errors)")
            #expect(verified.exitCode != 64, "\(verified.errors)")
        }
    }
}
