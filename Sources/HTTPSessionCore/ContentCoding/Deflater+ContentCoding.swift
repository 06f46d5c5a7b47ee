// SPDX-License-Identifier: Apache-2.0
import SessionCore

extension Deflater {
    /// Compresses a body in a coding of HTTP.
    ///
    /// - Returns: nil when memory is short.
    static func compress(_ bytes: [UInt8], _ coding: ContentCoding) -> [UInt8]? {
        compress(bytes, as: coding == .gzip ? .gzip : .zlib)
    }
}
