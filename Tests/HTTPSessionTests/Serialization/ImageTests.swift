// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPSessionImages
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Images", .onOwnThreads)
struct ImageTests {
    private typealias Pixel = DecodedImage.Pixel

    /// 16 × 8 pixels, red on the left and blue on the right.
    private static let jpeg = decoded(
        """
        /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAIBAQEBAQIBAQECAgICAgQDAgICAgUEBAMEBgUGBgYFBgYGBwkIBgcJBwYGCAsI\
        CQoKCgoKBggLDAsKDAkKCgr/2wBDAQICAgICAgUDAwUKBwYHCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoK\
        CgoKCgoKCgoKCgoKCgr/wAARCAAIABADAREAAhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAACP/EABQQAQAAAAAAAAAAAAAA\
        AAAAAAD/xAAWAQEBAQAAAAAAAAAAAAAAAAAKCAn/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwAXpTb+CGVQ\
        Ne//2Q==
        """
    )

    /// The same, progressive.
    private static let progressive = decoded(
        """
        /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAIBAQEBAQIBAQECAgICAgQDAgICAgUEBAMEBgUGBgYFBgYGBwkIBgcJBwYGCAsI\
        CQoKCgoKBggLDAsKDAkKCgr/2wBDAQICAgICAgUDAwUKBwYHCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoK\
        CgoKCgoKCgoKCgoKCgr/wgARCAAIABADAREAAhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAAB//EABYBAQEBAAAAAAAAAAAA\
        AAAAAAkHCP/aAAwDAQACEAMQAAABF5Tv4hVQ1//EABQQAQAAAAAAAAAAAAAAAAAAABD/2gAIAQEAAQUCP//EABQRAQAAAAAA\
        AAAAAAAAAAAAABD/2gAIAQMBAT8BP//EABQRAQAAAAAAAAAAAAAAAAAAABD/2gAIAQIBAT8BP//EABQQAQAAAAAAAAAAAAAA\
        AAAAABD/2gAIAQEABj8CP//EABQQAQAAAAAAAAAAAAAAAAAAABD/2gAIAQEAAT8hP//aAAwDAQACAAMAAAAQA//EABQRAQAA\
        AAAAAAAAAAAAAAAAABD/2gAIAQMBAT8QP//EABQRAQAAAAAAAAAAAAAAAAAAABD/2gAIAQIBAT8QP//EABQQAQAAAAAAAAAA\
        AAAAAAAAABD/2gAIAQEAAT8QP//Z
        """
    )

    /// 16 × 8 pixels in CMYK, as printers have it.
    private static let printers = decoded(
        """
        /9j/7gAOQWRvYmUAZAAAAAAA/9sAQwACAQEBAQECAQEBAgICAgIEAwICAgIFBAQDBAYFBgYGBQYGBgcJCAYHCQcGBggLCAkK\
        CgoKCgYICwwLCgwJCgoK/8AAFAgACAAQBEMRAE0RAFkRAEsRAP/EABQAAQAAAAAAAAAAAAAAAAAAAAr/xAAUEAEAAAAAAAAA\
        AAAAAAAAAAAA/9oADgRDAE0AWQBLAAA/AD/j/j/j/mQGQGQGQP/Z
        """
    )

    private static func decoded(_ text: String) -> [UInt8] { Array(Data(base64Encoded: text)!) }

    /// A PNG file (RFC 2083) of 8 bits a channel, without compression.
    ///
    /// - Parameters:
    ///   - color: 2 for RGB, 6 for RGBA.
    ///   - claiming: the size that its head says, instead of the true one.
    private static func png(
        _ rows: [[UInt8]],
        width: Int,
        color: UInt8 = 6,
        claiming: (width: Int, height: Int)? = nil
    ) -> [UInt8] {
        func number(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }
        func chunk(_ name: String, _ content: [UInt8]) -> [UInt8] {
            let body = Array(name.utf8) + content
            var crc: UInt32 = 0xFFFF_FFFF
            for byte in body {
                crc ^= UInt32(byte)
                for _ in 0..<8 { crc = crc & 1 == 1 ? (crc >> 1) ^ 0xEDB8_8320 : crc >> 1 }
            }
            return number(content.count) + body + number(Int(~crc))
        }
        let raw: [UInt8] = rows.flatMap { row in [UInt8(0)] + row }
        var (low, high) = (1, 0)
        for byte in raw {
            low = (low + Int(byte)) % 65521
            high = (high + low) % 65521
        }
        let length = [UInt8(raw.count & 255), UInt8(raw.count >> 8)]
        let head: [UInt8] = [0x78, 0x01, 1]
        let stored: [UInt8] = head + length + length.map { ~$0 } + raw + number(high << 16 | low)
        let size = claiming ?? (width, rows.count)
        let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        let layout: [UInt8] = [8, color, 0, 0, 0]
        let first = chunk("IHDR", number(size.width) + number(size.height) + layout)
        return signature + first + chunk("IDAT", stored) + chunk("IEND", [])
    }

    private static let small = png([[255, 0, 0, 255, 0, 255, 0, 128], [0, 0, 255, 0, 1, 2, 3, 4]], width: 2)

    private func image(_ bytes: [UInt8], type: String = "image/png") throws -> DecodedImage {
        try #require(try ImageResponseSerializer().serialize(dataResponse(bytes, type: type)))
    }

    @Test("a PNG gives its pixels as they are, transparency included")
    func pngPixels() throws {
        let image = try image(Self.small)
        #expect(image.format == .png)
        #expect(image.width == 2 && image.height == 2 && image.hasAlpha)
        #expect(image.pixels.count == 16)
        #expect(image[0, 0] == Pixel(red: 255, green: 0, blue: 0))
        #expect(image[1, 0] == Pixel(red: 0, green: 255, blue: 0, alpha: 128))
        #expect(image[0, 1].alpha == 0)
        #expect(image[1, 1] == Pixel(red: 1, green: 2, blue: 3, alpha: 4))
    }

    @Test("a PNG without transparency is opaque")
    func opaquePNG() throws {
        let image = try image(Self.png([[10, 20, 30], [40, 50, 60], [70, 80, 90]], width: 1, color: 2))
        #expect(image.width == 1 && image.height == 3 && !image.hasAlpha)
        #expect(image[0, 2] == Pixel(red: 70, green: 80, blue: 90))
    }

    @Test("a JPEG gives its pixels, progressive or not, under any content type", arguments: [false, true])
    func jpegPixels(isProgressive: Bool) throws {
        let image = try image(isProgressive ? Self.progressive : Self.jpeg)
        #expect(image.format == .jpeg)
        #expect(image.width == 16 && image.height == 8 && !image.hasAlpha)
        #expect(image.pixels.count == 16 * 8 * 4)
        for (x, expected) in [(1, Pixel(red: 255, green: 0, blue: 0)), (14, Pixel(red: 0, green: 0, blue: 255))] {
            let pixel = image[x, 4]
            #expect(abs(Int(pixel.red) - Int(expected.red)) < 8)
            #expect(pixel.green < 8)
            #expect(abs(Int(pixel.blue) - Int(expected.blue)) < 8)
            #expect(pixel.alpha == 255)
        }
    }

    @Test("the head alone is read where only the size is wanted")
    func sizes() throws {
        let serializer = ImageResponseSerializer(decodesPixels: false)
        let cut = Array(Self.small.prefix(60))
        let image = try #require(try serializer.serialize(dataResponse(cut, type: "image/png")))
        #expect(image.width == 2 && image.height == 2 && image.pixels.isEmpty)
        let jpeg = try #require(try serializer.serialize(dataResponse(Self.jpeg, type: "image/jpeg")))
        #expect(jpeg.width == 16 && jpeg.height == 8 && jpeg.pixels.isEmpty)
    }

    private func refusal(_ bytes: [UInt8], _ serializer: ImageResponseSerializer = ImageResponseSerializer()) -> String?
    {
        let error = #expect(throws: ResponseSerializationError.self) {
            try serializer.serialize(dataResponse(bytes, type: "image/png"))
        }
        guard case .invalidImage(let words) = error?.reason else { return nil }
        return words
    }

    @Test("a file that breaks off anywhere is refused")
    func truncated() {
        for whole in [Self.small, Self.jpeg, Self.progressive] {
            // The last bytes of a PNG are those of an empty chunk.
            for count in stride(from: 1, to: whole.count - 14, by: 3) {
                #expect(refusal(Array(whole.prefix(count))) != nil, "\(count) of \(whole.count) bytes")
            }
        }
    }

    @Test("damaged files are refused or decoded, and no more")
    func damaged() {
        var random = SeededGenerator(seed: 7)
        let serializer = ImageResponseSerializer(maximumPixelCount: 1 << 16)
        for whole in [Self.small, Self.jpeg, Self.progressive] {
            for _ in 0..<300 {
                var bytes = whole
                for _ in 0..<3 {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
                if let image = (try? serializer.serialize(dataResponse(bytes, type: "image/png"))) ?? nil {
                    #expect(image.pixels.count == image.width * image.height * 4)
                }
            }
        }
        var changed = Self.small
        changed[45] ^= 1
        #expect(refusal(changed) != nil)
    }

    @Test("a small file that says it is huge is refused before room is made")
    func bombs() {
        let huge = Self.png([[0, 0, 0, 0]], width: 1, claiming: (60_000, 60_000))
        #expect(refusal(huge)?.contains("60000 × 60000") == true)
        #expect(refusal(Self.jpeg, ImageResponseSerializer(maximumPixelCount: 127)) != nil)
        #expect((try? image(Self.jpeg)) != nil)
    }

    @Test("other formats and colours are refused in words", arguments: ["GIF89a", "RIFF0000WEBPVP8 ", "", "x"])
    func others(text: String) {
        if !text.isEmpty { #expect(refusal(Array(text.utf8))?.contains("neither PNG nor JPEG") == true) }
        #expect(refusal(Self.printers) != nil)
    }

    @Test("another content type, another status and no body are errors; 204 is nil")
    func validation() throws {
        for response in [
            dataResponse(Self.small, type: "text/html"), dataResponse(Self.small, status: 500, type: "image/png"),
            dataResponse(type: "image/png"),
        ] {
            #expect(throws: ResponseSerializationError.self) { try ImageResponseSerializer().serialize(response) }
        }
        #expect(try ImageResponseSerializer().serialize(dataResponse(status: 204)) == nil)
    }

    @Test("an image comes from an origin as any other object")
    func fetched() async throws {
        let bytes = Self.jpeg
        let stage = try HTTPStage { connection in
            while try connection.readRequest() != nil {
                try connection.write(
                    "HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\nContent-Length: \(bytes.count)\r\n\r\n"
                )
                try connection.write(bytes)
            }
        }
        let response = try await stage.manager.get("photo.jpg", serializer: ImageResponseSerializer())
        #expect(response.value?.width == 16)
        await stage.end()
    }
}
