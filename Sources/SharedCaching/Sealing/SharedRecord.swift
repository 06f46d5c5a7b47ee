// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore

/// A record in a URI's hash, before it is sealed.
///
/// A record beyond the bounds is encoded, too, but never decoded. Decoding trusts nothing although the record was sealed: an
/// older version of this program may have written it, or a faulty one.
enum SharedRecord {
    /// The names of the Vary fields of the responses: from 1 to 64.
    case variants([[UInt8]])
    case response(Response)

    struct Response {
        /// At most `purgeNumberAtMost`.
        var purgeNumber: Int
        /// The URI's generation; empty without one, else of 16 bytes.
        var generation: [UInt8]
        var uri: [UInt8]
        var part: [UInt8]
        var response: StoredResponse
        var tags: [[UInt8]]
        var body: Body
    }

    enum Body {
        case inline([UInt8])
        /// - Parameter identifier: of 16 bytes.
        case chunks(identifier: [UInt8], count: Int, length: Int)
    }

    static let inlineAtMost = 64 << 10
    static let chunkSize = 256 << 10
    static let chunksAtMost = 64
    static let generationLength = 16
    static let identifierLength = 16
    /// Scripts in Redis compare numbers as doubles, which are exact up to here.
    static let purgeNumberAtMost = 1 << 53
    /// For the URI, and for the part of the key.
    static let uriAtMost = 70 << 10
    static let headAtMost = 1_000_000
    private static let tagsAtMost = 1024
    private static let tagAtMost = 1024
    private static let fieldNameAtMost = 1024

    private static let version: UInt8 = 1
    private enum Kind: UInt8 { case variants = 1, inline = 2, chunks = 3 }

    func encoded() -> [UInt8] {
        var writer = HeadCoding.Writer()
        writer.bytes.append(Self.version)
        switch self {
        case .variants(let names):
            writer.bytes.append(Kind.variants.rawValue)
            writer.number(names.count)
            for name in names { writer.run(name.span) }
        case .response(let record):
            let head = HeadCoding.encode(record.response, tags: record.tags)
            if case .inline(let body) = record.body {
                writer.bytes.reserveCapacity(head.count + record.uri.count + record.part.count + body.count + 128)
                writer.bytes.append(Kind.inline.rawValue)
            } else {
                writer.bytes.append(Kind.chunks.rawValue)
            }
            writer.number(record.purgeNumber)
            writer.run(record.generation.span)
            writer.run(record.uri.span)
            writer.run(record.part.span)
            writer.run(head.span)
            switch record.body {
            case .inline(let body): writer.run(body.span)
            case .chunks(let identifier, let count, let length):
                writer.run(identifier.span)
                writer.number(count)
                writer.number(length)
            }
        }
        return writer.bytes
    }

    /// - Returns: nil when it is not one of this version, or any number or length in it is out of its bounds.
    init?(_ bytes: [UInt8], _ options: CacheOptions) {
        var reader = HeadCoding.Reader(bytes: bytes, end: bytes.count)
        guard reader.byte() == Self.version, let kind = reader.byte().flatMap(Kind.init) else { return nil }
        let record: SharedRecord? =
            switch kind {
            case .variants: Self.names(&reader).map { .variants($0) }
            case .inline, .chunks: Self.response(&reader, kind, options).map { .response($0) }
            }
        guard let record, reader.isAtEnd else { return nil }
        self = record
    }

    private static func names(_ reader: inout HeadCoding.Reader) -> [[UInt8]]? {
        guard let count = reader.number(), (1...SelectingFields.namesAtMost).contains(count) else { return nil }
        var names: [[UInt8]] = []
        for _ in 0..<count {
            guard let name = reader.run(atMost: fieldNameAtMost), HeaderFields.isValidName(name.span) else {
                return nil
            }
            names.append(name)
        }
        return names
    }

    private static func response(
        _ reader: inout HeadCoding.Reader,
        _ kind: Kind,
        _ options: CacheOptions
    ) -> Response? {
        guard let purgeNumber = reader.number(), (0...purgeNumberAtMost).contains(purgeNumber),
            let generation = reader.run(atMost: generationLength), [0, generationLength].contains(generation.count),
            let uri = reader.run(atMost: uriAtMost), let part = reader.run(atMost: uriAtMost),
            let head = reader.run(atMost: headAtMost), let body = body(&reader, kind),
            let (response, tags) = HeadCoding.decode(head, options),
            tags.count <= tagsAtMost, tags.allSatisfy({ $0.count <= tagAtMost }), isInBounds(response.selecting)
        else { return nil }
        return Response(
            purgeNumber: purgeNumber,
            generation: generation,
            uri: uri,
            part: part,
            response: response,
            tags: tags,
            body: body
        )
    }

    private static func body(_ reader: inout HeadCoding.Reader, _ kind: Kind) -> Body? {
        if kind == .inline { return reader.run(atMost: inlineAtMost).map { .inline($0) } }
        guard let identifier = reader.run(atMost: identifierLength), identifier.count == identifierLength,
            let count = reader.number(), (1...chunksAtMost).contains(count), let length = reader.number(),
            length > (count - 1) * chunkSize, length <= count * chunkSize
        else { return nil }
        return .chunks(identifier: identifier, count: count, length: length)
    }

    /// The head's coding does not check these.
    private static func isInBounds(_ selecting: SelectingFields) -> Bool {
        selecting.fields.count <= SelectingFields.namesAtMost
            && selecting.fields.allSatisfy {
                $0.name.count <= fieldNameAtMost && HeaderFields.isValidName($0.name.span)
            }
    }
}
