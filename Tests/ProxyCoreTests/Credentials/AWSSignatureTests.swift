// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("Signatures for AWS")
struct AWSSignatureTests {
    /// One of AWS's public test vectors.
    struct Vector: CustomTestStringConvertible, Sendable {
        var name: String
        var method: [UInt8]
        var target: [UInt8]
        var fields = HeaderFields()
        var body: [UInt8]
        var canonical: String
        var digest: String
        var authorization: String

        var testDescription: String { name }

        init(_ text: String) throws {
            let parts = text.components(separatedBy: "\n--- ")
            let request = parts[0].components(separatedBy: "\n")
            name = request[0]
            canonical = String(parts[1].dropFirst("canonical\n".count))
            digest = String(parts[2].dropFirst("digest\n".count))
            authorization = String(parts[3].dropFirst("authorization\n".count)).trimmingCharacters(in: .newlines)
            // The target may hold a space.
            let line = request[1].dropLast(" HTTP/1.1".count)
            let space = try #require(line.firstIndex(of: " "))
            method = Array(line[..<space].utf8)
            target = Array(line[line.index(after: space)...].utf8)
            let end = request.dropFirst(2).firstIndex(of: "") ?? request.count
            var folded: [String] = []
            for line in request[2..<end] {
                if line.hasPrefix(" ") {
                    folded[folded.count - 1] += " " + line.drop { $0 == " " }
                } else {
                    folded.append(line)
                }
            }
            for line in folded {
                let colon = try #require(line.firstIndex(of: ":"))
                let value = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
                try fields.append(name: String(line[..<colon]), value: value)
            }
            // One request stands there without the token of its keys, which whoever signs adds.
            let token = canonical.split(separator: "\n").first { $0.hasPrefix("x-amz-security-token:") }
            if let token, fields["x-amz-security-token"] == nil {
                try fields.append(
                    name: "X-Amz-Security-Token",
                    value: String(token.dropFirst("x-amz-security-token:".count))
                )
            }
            body = Array(request[min(end + 1, request.count)...].joined(separator: "\n").utf8)
        }

        static let all: [Vector] = {
            let file = Repository.folder.appending(path: "Tests/aws-signature-v4.txt")
            guard let text = try? String(contentsOf: file, encoding: .utf8) else { return [] }
            return text.components(separatedBy: "\n=== ").dropFirst().compactMap { try? Vector($0) }
        }()
    }

    private let keys = AWSKeys(
        identifier: SecretBytes(Array("AKIDEXAMPLE".utf8)),
        secret: SecretBytes(Array("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".utf8))
    )
    private let scope = AWSScope(region: "us-east-1", service: "service")

    @Test("all 34 public test vectors agree")
    func count() { #expect(Vector.all.count == 34) }

    @Test("a request is signed as AWS's test vector says", arguments: Vector.all)
    func vectors(_ vector: Vector) {
        let signature = AWSSignature(
            method: vector.method.span,
            target: vector.target.span,
            fields: vector.fields,
            payload: .digest(SecretDigest.sha256(vector.body)),
            keys: keys,
            scope: scope,
            time: Array("20150830T123600Z".utf8),
            normalizesPath: true
        )
        #expect(String(decoding: signature.canonicalRequest, as: UTF8.self) == vector.canonical)
        #expect(
            String(decoding: signature.stringToSign, as: UTF8.self)
                == "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/service/aws4_request\n\(vector.digest)"
        )
        #expect(String(decoding: signature.authorization, as: UTF8.self) == vector.authorization)
    }

    private func sign(
        _ target: String,
        _ payload: AWSSignature.Payload = .empty,
        normalizesPath: Bool = true
    ) throws -> AWSSignature {
        var fields = HeaderFields()
        try fields.append(name: "Host", value: "example.amazonaws.com")
        try fields.append(name: "X-Amz-Date", value: "20150830T123600Z")
        let (method, bytes) = (Array("GET".utf8), Array(target.utf8))
        return AWSSignature(
            method: method.span,
            target: bytes.span,
            fields: fields,
            payload: payload,
            keys: keys,
            scope: scope,
            time: Array("20150830T123600Z".utf8),
            normalizesPath: normalizesPath
        )
    }

    private func canonicalLines(_ signature: AWSSignature) -> [String] {
        String(decoding: signature.canonicalRequest, as: UTF8.self).components(separatedBy: "\n")
    }

    @Test("S3 gets the path encoded once, other services twice")
    func paths() throws {
        #expect(canonicalLines(try sign("/a%20b//c/../d", normalizesPath: false))[1] == "/a%20b//c/../d")
        // What a client need not encode, S3 and its kind decode and encode before they compare.
        #expect(canonicalLines(try sign("/a+b(c):~d@e", normalizesPath: false))[1] == "/a%2Bb%28c%29%3A~d%40e")
        #expect(canonicalLines(try sign("/%7ea%2b%c3%A9/%61%4", normalizesPath: false))[1] == "/~a%2B%C3%A9/a%254")
        #expect(canonicalLines(try sign("/a%20b//c/../d"))[1] == "/a%2520b/d")
        #expect(canonicalLines(try sign("/../.."))[1] == "/")
    }

    @Test("a query is signed decoded, encoded in one way, in order")
    func queries() throws {
        #expect(canonicalLines(try sign("/?b=%7e+c&a&a=1&&%61=0"))[2] == "a=&a=0&a=1&b=~%20c")
        #expect(canonicalLines(try sign("/?"))[2] == "")
        #expect(canonicalLines(try sign("/?x=%4&y=a=b"))[2] == "x=%254&y=a%3Db")
    }

    @Test("an unsigned or named body is in the last line")
    func payloads() throws {
        #expect(canonicalLines(try sign("/", .unsigned)).last == "UNSIGNED-PAYLOAD")
        for text in [String(repeating: "0a", count: 32), "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"] {
            let bytes = Array(text.utf8)
            let payload = AWSSignature.Payload(ofClient: bytes.span)
            #expect(canonicalLines(try sign("/", try #require(payload))).last == text)
        }
        for text in ["", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", String(repeating: "0g", count: 32), "0a"] {
            let bytes = Array(text.utf8)
            let payload = AWSSignature.Payload(ofClient: bytes.span)
            #expect(payload == nil, "\(text)")
        }
    }

    @Test("the time of a signature has no punctuation")
    func times() {
        #expect(AWSSignature.amzDate(1_440_938_160) == Array("20150830T123600Z".utf8))
    }
}
