// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore
import Testing

@testable import ProxyConfiguration
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
        service: String = "sts",
        isLikeS3: Bool = false
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
            normalizesPath: !isLikeS3
        )
        return (fields.value(for: "authorization"), String(decoding: expected.authorization, as: UTF8.self))
    }

    @Test("the host is signed as sent, without the usual port")
    func hosts() throws {
        let usual = try signatures(port: 443, host: "a.example")
        #expect(usual.made == usual.expected)
        let other = try signatures(port: 8443, host: "a.example:8443")
        #expect(other.made == other.expected)
    }

    /// The fields that a request gets.
    private func fields(
        of service: String,
        _ own: [(String, String)] = [],
        body: RequestBodyLength = .none,
        digest: [UInt8]? = nil,
        session: String? = nil
    ) throws -> HeaderFields {
        var client = HeaderFields()
        for (name, value) in own { client.append(name: Array(name.utf8).span, value: Array(value.utf8).span) }
        let request = SessionRequest(
            endpoint: Endpoint(
                scheme: .https,
                host: try Host("a.example"),
                port: 443,
                policy: .unpinned,
                anchors: TrustAnchors(certificates: []),
                generation: 1
            ),
            method: .put,
            target: Array("/a".utf8),
            fields: client,
            bodyLength: body
        )
        let keys = AWSKeys(
            identifier: self.keys.identifier,
            secret: self.keys.secret,
            session: session.map { SecretBytes(Array($0.utf8)) }
        )
        var fields = HeaderFields()
        let scope = AWSScope(region: "us-east-1", service: service)
        AWSFields.append(to: &fields, keys, scope, of: request, digest: digest, at: 1_440_938_160)
        return fields
    }

    /// The names that the signature is about.
    private func signedNames(_ fields: HeaderFields) -> String? {
        fields.value(for: "authorization")?.split(separator: " ").first { $0.hasPrefix("SignedHeaders=") }
            .map { String($0.dropFirst(14).dropLast()) }
    }

    @Test("S3 learns what of the body is signed")
    func payloads() throws {
        let name = "x-amz-content-sha256"
        let unsigned = try fields(of: "s3", body: .bytes(3))
        #expect(unsigned.value(for: name) == "UNSIGNED-PAYLOAD")
        let empty = try fields(of: "s3")
        // FIPS 180-2, of no bytes.
        #expect(empty.value(for: name) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(signedNames(empty) == "host;x-amz-content-sha256;x-amz-date")
        #expect(unsigned.value(for: "authorization") != empty.value(for: "authorization"))
        let other = try fields(of: "sts", body: .bytes(3), digest: SecretDigest.sha256([1, 2, 3]))
        #expect(other.value(for: name) == nil && signedNames(other) == "host;x-amz-date")
    }

    @Test("the body's digest is signed, or the client's own")
    func digests() throws {
        let (one, two) = (SecretDigest.sha256([1]), SecretDigest.sha256([2]))
        func signature(_ digest: [UInt8]?, _ own: [(String, String)] = []) throws -> String? {
            let made = try fields(of: "sts", own, body: .bytes(1), digest: digest)
            #expect(made.value(for: "x-amz-content-sha256") == nil, "the client's field is sent on")
            return made.value(for: "authorization")?.split(separator: "=").last.map(String.init)
        }
        #expect(try signature(one) == signature(one) && signature(one) != signature(two))
        #expect(try signature(one) != signature(nil))
        let own = ("X-Amz-Content-SHA256", "UNSIGNED-PAYLOAD")
        #expect(try signature(one, [own]) == signature(two, [own]) && signature(nil, [own]) != signature(nil))
        let named = ("X-Amz-Content-SHA256", String(repeating: "a", count: 64))
        #expect(try signature(nil, [named]) != signature(nil, [own]))
    }

    @Test("the session token, Content-Type and AWS's own fields are signed")
    func names() throws {
        let own = [("Content-Type", "text/plain"), ("X-Amz-Acl", "private"), ("User-Agent", "a"), ("X-Other", "b")]
        let made = try fields(of: "sts", own, session: "session-token-01")
        #expect(made.value(for: "x-amz-security-token") == "session-token-01")
        #expect(signedNames(made) == "content-type;host;x-amz-acl;x-amz-date;x-amz-security-token")
        #expect(try fields(of: "sts").value(for: "x-amz-security-token") == nil)
    }

    @Test(
        "S3's paths are signed as they are, other services' are not",
        arguments: [
            ("s3", true), ("s3-outposts", true), ("s3express", true), ("s3-object-lambda", true), ("s3tables", false),
            ("s3vectors", false),
        ]
    )
    func paths(service: String, isLikeS3: Bool) throws {
        let signed = try signatures(port: 443, host: "a.example", service: service, isLikeS3: isLikeS3)
        #expect(signed.made == signed.expected)
    }
}
