// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import TestSupport

/// A whole proxy in one thread: clients, origins, reloads and time from one input (`ProxyProgram`).
///
/// The properties: each complete request gets one response, or its connection ends; clients receive valid HTTP; a
/// client connection ends in time, whatever its peers do; no byte of a request reaches an origin under a wrong key; at
/// the end no connection, task, timer or descriptor is left.
final class ProxyProperties {
    private static let clientCount = 4
    private let folder: TemporaryFolder
    private let origin: FuzzOrigin
    private let policies: [PolicyParts]
    private let isAlone: Bool

    /// - Parameter isAlone: whether nothing else in the process opens and closes descriptors.
    init(isAlone: Bool) throws {
        _ = TestSocket.ready
        self.isAlone = isAlone
        folder = try TemporaryFolder()
        let pki = try TestPKI()
        let names = ["tls.test", "h2.test", "wrong.test", "follow.test", "gateway.test", "127.0.0.1"]
        let builder = CertificateBuilder.server(hosts: names, validity: TestPKI.validity)
        let right = try pki.server(builder)
        origin = try FuzzOrigin(right: right, wrong: try pki.server(builder))
        let stage = FuzzConfiguration(pki: pki, pin: right.pin, origin: origin, folder: folder)
        policies = try FuzzConfiguration.Variant.allCases.map { try stage.policy($0) }
    }

    func run(_ bytes: [UInt8]) throws(FuzzFinding) {
        let descriptors = Self.openDescriptors
        origin.reset()
        let workerIsAlive = try serve(ProxyProgram(bytes))
        origin.reset()
        if workerIsAlive() { throw FuzzFinding("the worker outlives its proxy") }
        let left = Self.openDescriptors
        guard !isAlone || left == descriptors else {
            throw FuzzFinding("descriptors are left open: \(left.subtracting(descriptors))")
        }
    }

    private func serve(_ program: ProxyProgram) throws(FuzzFinding) -> () -> Bool {
        let run: ProxyRun
        do {
            run = try ProxyRun(policies, origin, clients: Self.clientCount, folder: folder.path)
        } catch {
            throw FuzzFinding("the proxy did not start: \(error)")
        }
        for step in program.steps { run.carryOut(step) }
        do throws(FuzzFinding) {
            try run.conclude()
        } catch {
            run.stop()
            throw error
        }
        run.stop()
        return run.workerIsAlive
    }

    private static var openDescriptors: Set<Int32> { Set((0..<256).filter { fcntl($0, F_GETFD) >= 0 }) }
}

/// The configurations that an input may choose from.
struct FuzzConfiguration {
    enum Variant: Int, CaseIterable {
        case plain, cache, hooks, cacheAndHooks
        /// A configuration with other pins and other passwords.
        case otherPins
        case upstreamProxy
        case narrowLimits
        /// An HTTPS proxy: the origin with TLS, as the proxy that takes CONNECT.
        case secureProxy
    }

    let pki: TestPKI
    let pin: PublicKeyPin
    let origin: FuzzOrigin
    let folder: TemporaryFolder

    /// All of them lead to the fuzz origin by address. For a name `/etc/hosts` would be read on a thread, and a name server
    /// asked: the input would not take the same course each time.
    private static let hosts = [
        "plain.test", "b.test", "denied.test", "tls.test", "h2.test", "wrong.test", "follow.test", "gateway.test",
    ]

    static func socketPath(_ folder: String, _ listener: Int) -> String { "\(folder)/\(listener).sock" }
    /// The first listener supports HTTP/2, the second is a gateway, the third authenticates clients.
    static let listenerCount = 3

    func policy(_ variant: Variant) throws -> PolicyParts {
        var settings = ProxySettings(trusting: pki)
        settings.listeners = [
            ["unixSocket": Self.socketPath(folder.path, 0), "mode": "forward", "http2": true],
            [
                "unixSocket": Self.socketPath(folder.path, 1), "mode": "gateway", "upstream": "https://gateway.test",
                "allowedHosts": ["g"],
            ],
            [
                "unixSocket": Self.socketPath(folder.path, 2), "mode": "forward",
                "authentication": ["basic": ["file": "users"], "bearer": ["file": "tokens"]],
            ],
        ]
        addHosts(to: &settings, variant)
        // alice, secret; the token is "open sesame".
        let isOther = variant == .otherPins
        settings.files["users"] = "\(isOther ? "bob" : "alice"):\(Self.hash)\n"
        settings.files["tokens"] = "\(isOther ? "other" : "ci"):\(Self.digest)\n"
        settings.members = [
            "workers": 1,
            "access": [
                "denyAddresses": [String](), "allowHosts": Self.hosts, "connectPorts": [80, 443],
                "denyHosts": isOther ? ["denied.test", "b.test"] : ["denied.test"],
            ],
            "log": ["tasks": "off"],
        ]
        if [.cache, .cacheAndHooks].contains(variant) { settings.members["cache"] = ["memory": "1MB"] }
        if [.hooks, .cacheAndHooks].contains(variant) { settings.members["defaults"] = try hooks }
        if variant == .upstreamProxy {
            settings.members["upstreamProxy"] = "http://u:p@127.0.0.1:\(origin.port(.plain))"
        }
        if variant == .secureProxy {
            settings.members["upstreamProxy"] = "https://u:p@127.0.0.1:\(origin.port(.tls))"
            settings.pin("127.0.0.1", to: pin, with: ["ports": [Int(origin.port(.tls))]])
        }
        if variant == .narrowLimits {
            settings.members["limits"] = [
                "headBytes": "4KB", "connections": 3, "connectionsPerHost": 1, "requestBodyBytes": "1KB",
            ]
        }
        let path = try settings.write(to: folder)
        let loaded = ConfigurationLoader.load(path: path)
        guard let parts = loaded.parts else {
            throw FuzzFinding("the variant \(variant) is refused: \(loaded.issues)")
        }
        return parts
    }

    private func addHosts(to settings: inout ProxySettings, _ variant: Variant) {
        for host in ["plain.test", "b.test", "denied.test"] { settings.resolve(host, to: origin.port(.plain)) }
        settings.hosts["plain.test"]?["connect"] = "tunnel"
        settings.resolve("tls.test", to: origin.port(.tls))
        settings.resolve("gateway.test", to: origin.port(.tls))
        settings.resolve("follow.test", to: origin.port(.tls))
        settings.resolve("h2.test", to: origin.port(.http2))
        settings.hosts["h2.test"]?["httpVersion"] = "2"
        settings.resolve("wrong.test", to: origin.port(.wrongKey))
        settings.hosts["follow.test"]?["redirects"] = ["policy": "follow", "max": 3]
        let held = variant == .otherPins ? PublicKeyPin.unrelated(9) : pin
        for host in ["tls.test", "h2.test"] { settings.pin(host, to: held) }
        for host in ["wrong.test", "follow.test", "gateway.test"] { settings.pin(host, to: pin) }
    }

    private var hooks: [String: Any] {
        get throws {
            let downloads = "\(folder.path)/downloads"
            try FileManager.default.createDirectory(atPath: downloads, withIntermediateDirectories: true)
            return [
                "redirects": [
                    "policy": "follow",
                    "rules": [
                        ["path": "/back", "then": "return"], ["path": "/no", "then": "deny"],
                        ["to": ["b.test", "plain.test", "tls.test"], "then": "follow"],
                    ],
                ],
                "responses": [
                    "rules": [
                        ["contentType": "text/html", "then": "cancel"],
                        ["contentType": "x/file", "then": "becomeDownload", "directory": downloads],
                    ],
                    "acceptableStatusCodes": ["2xx", "3xx", 404], "maxBytes": "1KB",
                ],
                "headers": [
                    "request": ["set": ["User-Agent": "fuzz"], "remove": ["Cookie"]],
                    "response": ["remove": ["Server"]],
                ],
            ]
        }
    }

    private static let hash =
        "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/"
    private static let digest = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7"
}
