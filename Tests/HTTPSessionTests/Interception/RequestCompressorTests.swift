// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionStubs
import IOCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Compressed request bodies", .onOwnThreads)
struct RequestCompressorTests {
    /// What an origin in memory received of a request.
    private func sent(
        _ body: RequestBody,
        _ headers: HTTPHeaders = [:],
        by compressor: RequestCompressor
    ) async throws -> StubRequest {
        let stage = try StubStage(interceptor: compressor)
        try stage.origin.route(.post, "/", response: .text("received"))
        let request = HTTPSessionRequest(url: StubStage.base + "/", method: .post, headers: headers, body: body)
        defer { stage.manager.session.cancelAllTasks() }
        _ = try await stage.manager.request(request).response(serializer: .string)
        await stage.end()
        return try #require(stage.origin.requests.first)
    }

    private func decoded(_ bytes: [UInt8], _ coding: ContentCoding) throws -> [UInt8] {
        let inflater = try #require(Inflater(coding))
        var output = ByteBuffer()
        var position = 0
        while inflater.next(bytes.span, &position, into: &output) == .hasMore {}
        #expect(inflater.mayEnd && position == bytes.count)
        return [UInt8](copying: output.bytes)
    }

    @Test(
        "bodies of any size decode to what they were",
        arguments: [1, 65_535, 65_536, 65_537, 300_000],
        [RequestCompressor.Coding.deflate, .gzip]
    )
    func sizes(size: Int, coding: RequestCompressor.Coding) async throws {
        var random = SeededGenerator(seed: UInt64(size))
        let noise = (0..<size).map { _ in UInt8.random(in: 0...255, using: &random) }
        for body in [noise, [UInt8](repeating: 65, count: size), patternBytes(size)] {
            let sent = try await sent(.bytes(body), by: RequestCompressor(coding))
            #expect(sent.value(for: "Content-Encoding") == coding.rawValue)
            #expect(try decoded(sent.body, coding == .gzip ? .gzip : .deflate) == body)
        }
    }

    @Test("compressed text has fewer bytes")
    func smaller() async throws {
        let text = Array(String(repeating: "a line of a report, ", count: 1000).utf8)
        #expect(try await sent(.bytes(text), by: RequestCompressor()).body.count < text.count / 20)
    }

    @Test("an absent, streamed or excluded body is sent as it is")
    func unchanged() async throws {
        let source = BodySource(length: 3) { OneByteReader([1, 2, 3]) }
        for (body, compressor) in [
            (.none, RequestCompressor()), (.bytes([]), RequestCompressor()), (.source(source), RequestCompressor()),
            (.bytes([1, 2, 3]), RequestCompressor { $0.count > 3 }),
        ] as [(RequestBody, RequestCompressor)] {
            let sent = try await sent(body, by: compressor)
            let expected = try await body.collect()
            #expect(sent.value(for: "Content-Encoding") == nil && sent.body == expected)
        }
    }

    @Test("a body with a coding is an error, replaced, or left alone")
    func duplicate() async throws {
        let headers: HTTPHeaders = ["content-encoding": "br"]
        await #expect {
            try await sent(.bytes([1, 2, 3]), headers, by: RequestCompressor())
        } throws: { error in
            guard case .adaptation(let cause)? = error as? RequestFailure else { return false }
            return (cause as? SessionError)?.code == .requestInvalid
        }
        let skipping = RequestCompressor(duplicateHeaderBehavior: .skip)
        let skipped = try await sent(.bytes([1, 2, 3]), headers, by: skipping)
        #expect(skipped.body == [1, 2, 3] && skipped.value(for: "Content-Encoding") == "br")
        let replacing = RequestCompressor(.gzip, duplicateHeaderBehavior: .replace)
        let replaced = try await sent(.bytes([1, 2, 3]), headers, by: replacing)
        #expect(try decoded(replaced.body, .gzip) == [1, 2, 3])
        #expect(replaced.headers.values(for: "Content-Encoding").count == 1)
        #expect(replaced.value(for: "Content-Encoding") == "gzip")
    }
}

/// A reader that gives one byte at a time.
private final class OneByteReader: BodyReader, @unchecked Sendable {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    func read(atMost count: Int) async throws -> [UInt8] {
        rest.popFirst().map { [$0] } ?? []
    }
}
