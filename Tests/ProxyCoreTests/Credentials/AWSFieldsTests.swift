// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore
import Testing

@testable import ProxyCore

@Suite("Fields that sign a request to AWS")
struct AWSFieldsTests {
    private let keys = AWSKeys(
        identifier: SecretBytes(Array("AKIDEXAMPLE".utf8)),
        secret: SecretBytes(Array("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".utf8))
    )

    /// The value of Authorization, and the one that a host of that text leads to.
    private func signatures(
        port: UInt16,
        host: String,
        service: String = "sts"
    ) throws -> (made: String?, expected: String) {
        let scope = AWSScope(region: "us-east-1", service: service)
        let request = SessionRequest(
            endpoint: Endpoint(
                scheme: .https,
                host: try Host("a.example"),
                port: port,
                policy: .unpinned,
                anchors: TrustAnchors(certificates: []),
                generation: 1
            ),
            method: .get,
            target: Array("/a//b".utf8),
            fields: HeaderFields()
        )
        var fields = HeaderFields()
        AWSFields.append(to: &fields, keys, scope, of: request, digest: nil, at: 1_440_938_160)
        var signed = HeaderFields()
        signed.append(.host, Array(host.utf8).span)
        for index in 0..<fields.count where fields.id(at: index) != .authorization {
            signed.append(contentsOf: fields, at: index)
        }
        let method = Array("GET".utf8)
        let target = Array("/a//b".utf8)
        let expected = AWSSignature(
            method: method.span,
            target: target.span,
            fields: signed,
            payload: .empty,
            keys: keys,
            scope: scope,
            time: AWSSignature.amzDate(1_440_938_160),
            normalizesPath: service == "sts"
        )
        return (fields.value(for: "authorization"), String(decoding: expected.authorization, as: UTF8.self))
    }

    @Test("the host is signed as it is sent: without the port of https, with any other")
    func hosts() throws {
        let usual = try signatures(port: 443, host: "a.example")
        #expect(usual.made == usual.expected)
        let other = try signatures(port: 8443, host: "a.example:8443")
        #expect(other.made == other.expected)
    }

    @Test("paths of S3 and its kind are signed as they are", arguments: ["s3", "s3-outposts", "s3express"])
    func paths(service: String) throws {
        let signed = try signatures(port: 443, host: "a.example", service: service)
        #expect(signed.made == signed.expected)
    }
}
