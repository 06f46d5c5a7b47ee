// SPDX-License-Identifier: Apache-2.0
import CImages

/// Decodes a file's bytes to pixels, by libpng and libjpeg-turbo.
struct ImageDecoder {
    struct Fault: Error {
        let words: String
    }

    let format: DecodedImage.Format
    let bytes: [UInt8]

    /// The format from the signature, whatever the response's content type is.
    init(_ bytes: [UInt8]) throws(Fault) {
        self.bytes = bytes
        if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
            format = .png
        } else if bytes.starts(with: [0xFF, 0xD8, 0xFF]) {
            format = .jpeg
        } else {
            throw Fault(words: "it is neither PNG nor JPEG")
        }
    }

    /// - Parameters:
    ///   - maximumPixelCount: the limit of the size that a file declares before it is decoded; a small file may declare
    ///     any size.
    ///   - decodesPixels: whether to decode more than the head.
    func decode(maximumPixelCount: Int, decodesPixels: Bool) throws(Fault) -> DecodedImage {
        var info = pinproxy_image_info()
        let hasInfo = bytes.withUnsafeBufferPointer { all in
            switch format {
            case .png: pinproxy_png_read_info(all.baseAddress, all.count, &info)
            case .jpeg: pinproxy_jpeg_read_info(all.baseAddress, all.count, &info)
            }
        }
        guard hasInfo else { throw Self.fault(info) }
        let width = Int(info.width)
        let height = Int(info.height)
        let (count, overflows) = width.multipliedReportingOverflow(by: height)
        guard !overflows, count <= maximumPixelCount else {
            throw Fault(words: "\(width) × \(height) pixels are more than the \(maximumPixelCount) that are decoded")
        }
        var pixels: [UInt8] = []
        if decodesPixels {
            pixels = [UInt8](repeating: 0, count: count * 4)
            let isDecoded = bytes.withUnsafeBufferPointer { all in
                pixels.withUnsafeMutableBufferPointer { room in
                    switch format {
                    case .png: pinproxy_png_decode(all.baseAddress, all.count, &info, room.baseAddress)
                    case .jpeg: pinproxy_jpeg_decode(all.baseAddress, all.count, &info, room.baseAddress)
                    }
                }
            }
            guard isDecoded else { throw Self.fault(info) }
        }
        return DecodedImage(format: format, width: width, height: height, hasAlpha: info.has_alpha, pixels: pixels)
    }

    /// The library's own error text.
    private static func fault(_ info: pinproxy_image_info) -> Fault {
        let bytes = withUnsafeBytes(of: info.message) { $0.prefix { $0 != 0 } }
        return Fault(words: String(decoding: Array(bytes), as: UTF8.self))
    }
}
