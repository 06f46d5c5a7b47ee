// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import TestSupport
import Testing

@testable import SharedCaching

/// Short notations for the tests of names, seals and records.
enum SealingStage {
    static let now = 1_784_111_777
    static let options = CacheOptions()
    static let policy = PolicyDigest([1, 2, 3])

    /// The secret of the bytes from 0 to 31.
    static func secret(prefix: String = "p:") throws -> SharedSecret {
        try #require(SharedSecret(Array(0..<32), prefix: Array(prefix.utf8)))
    }

    static func key(_ uri: String = "GET https://a.example:443/x?y", part: String = "team") -> CacheKey {
        CacheKey(uri: Array(uri.utf8), part: Array(part.utf8))
    }

    static func fields(_ pairs: [(String, String)]) throws -> HeaderFields {
        var fields = HeaderFields()
        for (name, value) in pairs { try fields.append(name: name, value: value) }
        return fields
    }

    static func response(
        _ pairs: [(String, String)] = [("Cache-Control", "max-age=60"), ("ETag", "\"1\"")],
        to request: [(String, String)] = []
    ) throws -> StoredResponse {
        StoredResponse(
            status: 200,
            response: try fields(pairs),
            to: CacheRequest(method: .get, fields: try fields(request)),
            requestTime: now - 1,
            responseTime: now,
            digest: policy,
            options
        )
    }

    static func record(
        _ body: SharedRecord.Body = .inline(Array("body".utf8)),
        response: StoredResponse? = nil,
        tags: [[UInt8]] = [],
        _ change: (inout SharedRecord.Response) -> Void = { _ in }
    ) throws -> SharedRecord {
        var record = SharedRecord.Response(
            purgeNumber: 7,
            generation: Array(1...16),
            uri: Array("GET https://a.example:443/".utf8),
            part: [],
            response: try response ?? Self.response(),
            tags: tags,
            body: body
        )
        change(&record)
        return .response(record)
    }

    /// The bytes of hexadecimal digits.
    static func bytes(_ digits: String) -> [UInt8] {
        let digits = Array(digits)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0..<($0 + 2)]), radix: 16) ?? 0 }
    }

    static func random(_ count: Int, _ generator: inout SeededGenerator) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
    }
}
