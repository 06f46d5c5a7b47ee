// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Trust anchors")
struct TrustAnchorTests {
    private static let hasSystemBundle = FileManager.default.fileExists(atPath: "/etc/ssl/certs/ca-certificates.crt")

    @Test("the system's bundle loads, and a private CA is not in it", .enabled(if: hasSystemBundle))
    func system() throws {
        let pki = try TestPKI()
        let system = try TrustAnchors.system()
        #expect(system.count > 10)
        let scenario = Scenario(try pki.server(Scenario.host), pki)
        try expect(scenario.with { $0.anchors = system }, .certificateUntrusted, mended: scenario, .notPinned)
    }

    @Test("files join the system's bundle, or stand alone", .enabled(if: hasSystemBundle))
    func files() throws {
        let pki = try TestPKI()
        let folder = try TemporaryFolder()
        let file = try folder.write(pki.root.certificate.pem, as: "root.pem")
        let library = TrustAnchorLibrary()
        let scenario = Scenario(try pki.server(Scenario.host), pki)
        for system in [false, true] {
            let anchors = try library.anchors(system: system, files: [file])
            #expect(try scenario.with { $0.anchors = anchors }.evaluation().verdict == .notPinned)
            #expect((anchors.count == 1) == !system)
        }
        #expect(throws: CertificateFault.self) { try library.anchors(system: false, files: [file + "x"]) }
    }
}
