// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore

@testable import SharedCaching

/// What a shared cache reads after it was opened: another version of the program may have sealed it.
enum SharedRecordProperties {
    private static let options = CacheOptions()

    /// The first byte chooses: a record, a purge, or the head in a record, whose checksum a fuzzer would not hit.
    static func all(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let kind = bytes.first else { return }
        let rest = Array(bytes.dropFirst())
        switch kind % 3 {
        case 0: try record(rest)
        case 1: try purge(rest)
        default: try record(around(rest))
        }
    }

    /// A record that is read keeps to its bounds, is read as the same from what is written of it, and can be used.
    private static func record(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let record = SharedRecord(bytes, options) else { return }
        switch record {
        case .variants(let names):
            guard (1...64).contains(names.count), names.allSatisfy({ HeaderFields.isValidName($0.span) }) else {
                throw FuzzFinding("\(names.count) names of Vary fields")
            }
        case .response(let response): try use(response)
        }
        let written = record.encoded()
        guard let again = SharedRecord(written, options), again.encoded() == written else {
            throw FuzzFinding("a record of \(written.count) bytes is not read as it is written")
        }
    }

    private static func use(_ record: SharedRecord.Response) throws(FuzzFinding) {
        guard [0, 16].contains(record.generation.count),
            (0...SharedRecord.purgeNumberAtMost).contains(record.purgeNumber)
        else { throw FuzzFinding("a generation of \(record.generation.count) bytes, or purge \(record.purgeNumber)") }
        switch record.body {
        case .inline(let body):
            guard body.count <= SharedRecord.inlineAtMost else { throw FuzzFinding("\(body.count) bytes inline") }
        case .chunks(_, let count, let length):
            let size = SharedRecord.chunkSize
            guard count <= SharedRecord.chunksAtMost, length > 0, (length + size - 1) / size == count else {
                throw FuzzFinding("\(count) chunks of \(length) bytes")
            }
        }
        let request = CacheRequest(method: .get, fields: HeaderFields())
        _ = record.response.matches(request, under: record.response.digest, options)
        _ = record.response.freshness(now: 1 << 31)
        _ = record.response.hasValidator
    }

    private static func purge(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let purge = SharedPurge(bytes) else { return }
        guard purge.encoded() == bytes else { throw FuzzFinding("a purge is written otherwise than it was read") }
    }

    private static func around(_ head: [UInt8]) -> [UInt8] {
        var writer = HeadCoding.Writer()
        // Version, inline, without purges, generation, URI and part.
        writer.bytes = [1, 2]
        for _ in 0..<4 { writer.number(0) }
        let checksum = XXH64.hash(head.span)
        let complete = head + (0..<8).map { UInt8(truncatingIfNeeded: checksum >> UInt64($0 * 8)) }
        writer.run(complete.span)
        writer.number(0)
        return writer.bytes
    }
}
