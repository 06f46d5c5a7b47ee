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
        guard let coding = ContentCoding(fields), let inflater = Inflater(coding) else { return nil }
        var decoded = ByteBuffer()
        var position = 0
        while true {
            switch inflater.next(body.span, &position, into: &decoded) {
            case .failed: return nil
            case .needsInput: return inflater.mayEnd && decoded.count <= limit ? [UInt8](copying: decoded.bytes) : nil
            case .hasMore:
                if decoded.count > limit { return nil }
            }
        }
    }
}
