// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore

/// Bodies that are there as a whole.
package enum DecodedContent {
    /// Decodes a body.
    ///
    /// - Parameters:
    ///   - fields: with the `Content-Encoding`.
    ///   - limit: the most bytes that are decoded.
    /// - Returns: nil for an unknown coding, a body that is broken or incomplete, and a longer one.
    package static func decode(_ body: [UInt8], _ fields: HeaderFields, limit: Int) -> [UInt8]? {
        var body = body
        let codings = ContentCoding.of(fields)
        guard !codings.isEmpty else { return nil }
        for coding in codings.reversed() {
            guard let decoded = decode(body, coding, limit: limit) else { return nil }
            body = decoded
        }
        return body
    }

    private static func decode(_ body: [UInt8], _ coding: ContentCoding, limit: Int) -> [UInt8]? {
        guard let decoder = coding.makeDecoder() else { return nil }
        var decoded = ByteBuffer()
        var position = 0
        while true {
            switch decoder.next(body.span, &position, into: &decoded) {
            case .failed: return nil
            case .needsInput: return decoder.mayEnd && decoded.count <= limit ? [UInt8](copying: decoded.bytes) : nil
            case .hasMore:
                if decoded.count > limit { return nil }
            }
        }
    }
}

extension ContentCoding {
    /// nil when memory is short.
    package func makeDecoder() -> (any BodyDecoding)? {
        if case .other(let decoder) = self { return decoder.make() }
        return Inflater(self)
    }
}
