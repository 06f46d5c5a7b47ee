// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import Foundation
import TestSupport

/// SHA-256 of files that do not go into memory.
enum FileDigest {
    private static let pieceSize = 1 << 20

    /// Writes a file of numbers that repeat nowhere, and gives its digest.
    static func write(_ count: Int, to path: String) throws -> String {
        let place = URL(fileURLWithPath: path)
        try Data().write(to: place)
        let file = try FileHandle(forWritingTo: place)
        defer { try? file.close() }
        var numbers = SeededGenerator(seed: 1)
        return try digest { update in
            var left = count
            while left > 0 {
                let words = (0..<pieceSize / 8).map { _ in numbers.next() }
                let piece = words.withUnsafeBytes { Data($0.prefix(left)) }
                try file.write(contentsOf: piece)
                update(piece)
                left -= piece.count
            }
        }
    }

    static func read(_ path: String) throws -> String {
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        return try digest { update in
            while let piece = try file.read(upToCount: pieceSize), !piece.isEmpty { update(piece) }
        }
    }

    private static func digest(_ feed: ((Data) -> Void) throws -> Void) rethrows -> String {
        let running = RunningDigest()
        try feed { running.update($0) }
        return running.text
    }
}

/// SHA-256 of bytes that come in pieces.
final class RunningDigest {
    private let context = EVP_MD_CTX_new()

    init() { EVP_DigestInit_ex(context, EVP_sha256(), nil) }

    deinit { EVP_MD_CTX_free(context) }

    func update(_ piece: some ContiguousBytes) {
        piece.withUnsafeBytes { _ = EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
    }

    /// The digest; no bytes can be added afterwards.
    var text: String {
        var result = [UInt8](repeating: 0, count: 32)
        EVP_DigestFinal_ex(context, &result, nil)
        return result.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
