// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionStubs
import IOCore
import SessionCore
import TestSupport
import Testing

@testable import HTTPSessionCodings
@testable import HTTPSessionCore

/// Bodies in brotli and Zstandard. Those in base64 were made by libbrotlienc and zstd(1); the others are written by RFC 8878.
private enum FurtherBody {
    static let text = CodedBody.text
    static let brotli = bytes("G38AAARqcqQHlGn80Jb0UlstyCKtAKgdC1uVreMlT0NwNa9lSr7AAQ==")
    /// With a window of 1 GB, as only `large_window` makes it.
    static let largeBrotli = bytes("EV78AQAQqMmRHlCm8UNb0ktttSCLtAKgdrDAWFG2jpc8DcHVvJYp+QIH")
    static let zstd = bytes("KLUv/SSAJQEA2FdoYXQgaXMgc2Vud2hhdCB3YXMgbWVhbnQuIAIAeqhZ2+sFAZ9QcA==")
    /// 200 MB of zeros.
    static let brotliBomb = bytes(
        """
        y///PwAkAOKxQHLv//j//weABEAcFoDu/R////8AkACIwwLQvf/j//8fABIAcVgAuvd//P//A0ACIA4LQPf+j///fwBIAMRhAeje//H//w8ACYA4LADd\
        +z/+//8BIAEQhwWge//H//8/ACQA4rAAdO//+P//B4AEQBwWgO79H////wCQAIjDAtC9/+P//x8AEgBxWAC693/8//8DQAIgDgtA9/6P//9/AEgAxGEB\
        6N7/8f//DwAJgDgsAN37P/7//wEgARCHBaB7/8f//z8AJADisAB07//4//8HgARAHBaA7v0f////AJAAiMMC0L3/4///HwASAHFYALr3f/z//wNAAiAO\
        C0D3/o///38ASADEYQHo3v/x//8PAAmAOCwA3fs//v//ASABEIcFoHv/l///fwAkAOKwAHTv/wA=
        """
    )
    static let magic: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD]
    static let skipped: [UInt8] = [0x53, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3]

    private static func bytes(_ base64: String) -> [UInt8] { Array(Data(base64Encoded: base64)!) }

    /// A frame of runs of zeros, of 128 KB each.
    ///
    /// - Parameter window: the power of two of its window, from 10.
    static func zeros(_ count: Int, window: UInt8 = 20) -> [UInt8] {
        var frame = magic + [0, (window - 10) << 3]
        for index in 1...count {
            let header = (128 << 10) << 3 | 1 << 1 | (index == count ? 1 : 0)
            frame += [UInt8(header & 0xFF), UInt8(header >> 8 & 0xFF), UInt8(header >> 16), 0]
        }
        return frame
    }
}

@Suite("Brotli and Zstandard", .onOwnThreads)
struct FurtherCodingTests {
    /// The output for input of so many bytes at a time; nil for rejected or truncated input.
    private func decode(_ coded: [UInt8], _ coding: ContentDecoder, by size: Int = .max) throws -> [UInt8]? {
        let decoder = try #require(coding.make())
        var decoded: [UInt8] = []
        var place = 0
        while place < coded.count {
            let end = size > coded.count - place ? coded.count : place + size
            let piece = Array(coded[place..<end])
            place = end
            var position = 0
            var step = DecodingStep.hasMore
            while step == .hasMore {
                var output = ByteBuffer()
                step = decoder.next(piece.span, &position, into: &output)
                if case .failed = step { return nil }
                #expect(output.count <= DecodingStep.pieceSize)
                decoded += [UInt8](copying: output.bytes)
            }
            #expect(position == piece.count)
        }
        return decoder.mayEnd ? decoded : nil
    }

    @Test("bodies are decoded in pieces of any size", arguments: [1, 2, 3, 7, Int.max])
    func pieces(_ size: Int) throws {
        #expect(try decode(FurtherBody.brotli, .brotli, by: size) == FurtherBody.text)
        #expect(try decode(FurtherBody.zstd, .zstd, by: size) == FurtherBody.text)
        #expect(try decode(FurtherBody.zeros(3), .zstd, by: size)?.count == 3 * 128 << 10)
        let frames = FurtherBody.zstd + FurtherBody.skipped + FurtherBody.zstd
        #expect(try decode(frames, .zstd, by: size) == FurtherBody.text + FurtherBody.text)
    }

    @Test("a body that ends early is truncated; an empty one is not")
    func truncated() throws {
        for (body, coding) in [(FurtherBody.brotli, ContentDecoder.brotli), (FurtherBody.zstd, .zstd)] {
            for count in 1..<body.count { #expect(try decode(Array(body.prefix(count)), coding) == nil, "\(count)") }
            #expect(try decode([], coding) == [])
        }
    }

    @Test("bytes behind the end are ignored, as behind gzip", arguments: 1...6)
    func behind(_ count: Int) throws {
        let garbage = [UInt8](repeating: 0x28, count: count)
        for size in [1, Int.max] {
            #expect(try decode(FurtherBody.brotli + garbage, .brotli, by: size) == FurtherBody.text)
            #expect(try decode(FurtherBody.zstd + garbage, .zstd, by: size) == FurtherBody.text)
        }
        // A frame that begins has to end.
        #expect(try decode(FurtherBody.zstd + FurtherBody.magic, .zstd) == nil)
    }

    @Test("broken bodies, and those of another coding, are refused")
    func broken() throws {
        for coding in [ContentDecoder.brotli, .zstd] {
            #expect(try decode(CodedBody.gzip, coding) == nil)
            #expect(try decode(Array("plain text, not coded at all".utf8), coding) == nil)
        }
        var wrong = FurtherBody.zstd
        wrong[wrong.count - 1] ^= 1
        // The checksum of the frame.
        #expect(try decode(wrong, .zstd) == nil)
    }

    @Test("windows of 8 MB are accepted, larger ones refused")
    func windows() throws {
        #expect(try decode(FurtherBody.zeros(1, window: 23), .zstd)?.count == 128 << 10)
        for window in UInt8(24)...31 { #expect(try decode(FurtherBody.zeros(1, window: window), .zstd) == nil) }
        #expect(try decode(FurtherBody.largeBrotli, .brotli) == nil)
    }

    @Test("a frame of a format before the standard is refused, or ignored behind another", arguments: [1, 4, Int.max])
    func olderFormats(pieceSize: Int) throws {
        // Version 0.7 with a window of 128 MB, which libzstd takes whatever limit of the window it has.
        let frame: [UInt8] = [0x27, 0xB5, 0x2F, 0xFD, 0, 0x88, 0x40, 0, 3, 0x61, 0x62, 0x63, 0xC0, 0, 0]
        #expect(try decode(frame, .zstd, by: pieceSize) == nil)
        #expect(try decode(FurtherBody.zstd + frame, .zstd, by: pieceSize) == FurtherBody.text)
    }

    private static func stage() throws -> StubStage { try StubStage { $0.contentDecoders = [.brotli, .zstd] } }

    @Test("a session asks for the codings that it was given, and for no others")
    func negotiation() async throws {
        let stage = try Self.stage()
        let both = StubResponse.bytes(FurtherBody.brotli).adding("Content-Encoding", "BR")
        try stage.origin.route(nil, "/br", response: both)
        let zstd = StubResponse.bytes(FurtherBody.zstd).adding("Content-Encoding", "zstd")
        try stage.origin.route(nil, "/zstd", response: zstd)
        for path in ["br", "zstd"] {
            #expect(try await stage.manager.get(path, serializer: .data).value == FurtherBody.text)
            #expect(stage.origin.requests.last?.value(for: "Accept-Encoding") == "gzip, deflate, br, zstd")
        }
        await stage.end()
        let plain = try StubStage()
        try plain.origin.route(nil, "*", response: both)
        #expect(try await plain.manager.get("br", serializer: .data).value == FurtherBody.brotli)
        #expect(plain.origin.requests.last?.value(for: "Accept-Encoding") == "gzip, deflate")
        await plain.end()
    }

    @Test("a bomb ends the task, also where no limit of the body does")
    func bombs() async throws {
        let stage = try Self.stage()
        for (coding, body) in [("br", FurtherBody.brotliBomb), ("zstd", FurtherBody.zeros(4000))] {
            let response = StubResponse.bytes(body).adding("Content-Encoding", coding)
            try stage.origin.route(nil, "/\(coding)", response: response)
            let failure = await #expect(throws: RequestFailure.self) {
                try await stage.manager.get(coding, serializer: .data)
            }
            #expect(failure?.sessionError?.code == .responseTooLarge)
            let url = try stage.manager.url(coding)
            let task = try stage.manager.session.dataTask(with: HTTPSessionRequest(url: url))
            let count = Monitor(0)
            task.dataDelegate.dataStream = { bytes in count.with { $0 += bytes.count } }
            let error = await #expect(throws: SessionError.self) { try await task.value() }
            #expect(error?.code == .responseTooLarge)
            #expect(count.with { $0 } <= 64 << 20)
        }
        await stage.end()
    }

    @Test("a truncated or broken body fails the task")
    func faults() async throws {
        let stage = try Self.stage()
        let cut = StubResponse.bytes(Array(FurtherBody.zstd.dropLast())).adding("Content-Encoding", "zstd")
        try stage.origin.route(nil, "/cut", response: cut)
        let other = StubResponse.bytes(FurtherBody.zeros(1, window: 30)).adding("Content-Encoding", "zstd")
        try stage.origin.route(nil, "/window", response: other)
        for (path, code) in [("cut", SessionError.Code.responseTruncated), ("window", .responseInvalid)] {
            let failure = await #expect(throws: RequestFailure.self) {
                try await stage.manager.get(path, serializer: .data)
            }
            #expect(failure?.sessionError?.code == code)
        }
        await stage.end()
    }
}
