// SPDX-License-Identifier: Apache-2.0
/// An image with its pixels.
public struct DecodedImage: Sendable, Hashable {
    /// The format of the file.
    public enum Format: Sendable, Hashable {
        /// PNG (ISO/IEC 15948).
        case png
        /// JPEG (ITU-T T.81), sequential or progressive.
        case jpeg
    }

    /// One pixel with 8 bits for each channel, in the file's colour space, mostly sRGB.
    public struct Pixel: Sendable, Hashable {
        /// The intensity, from 0 to 255.
        public var red: UInt8
        /// The intensity, from 0 to 255.
        public var green: UInt8
        /// The intensity, from 0 to 255.
        public var blue: UInt8
        /// The opacity: 255 is opaque. The colours are not multiplied by it.
        public var alpha: UInt8

        /// A pixel that is opaque by default.
        public init(red: UInt8, green: UInt8, blue: UInt8, alpha: UInt8 = 255) {
            self.red = red
            self.green = green
            self.blue = blue
            self.alpha = alpha
        }
    }

    /// The format, from the file's first bytes.
    public let format: Format
    /// The stored width in pixels: an orientation in the file (Exif) is not applied.
    public let width: Int
    /// The stored height in pixels.
    public let height: Int
    /// Whether the file has transparency; otherwise alpha is 255.
    public let hasAlpha: Bool
    /// `width * height * 4` bytes: red, green, blue, alpha, row by row from the top. Empty when only the size was read.
    public let pixels: [UInt8]

    init(format: Format, width: Int, height: Int, hasAlpha: Bool, pixels: [UInt8]) {
        self.format = format
        self.width = width
        self.height = height
        self.hasAlpha = hasAlpha
        self.pixels = pixels
    }

    /// The pixel at a position from the top left. The position has to be within the image, and the pixels decoded.
    public subscript(x: Int, y: Int) -> Pixel {
        precondition(x >= 0 && x < width && y >= 0 && y < height, "no place within the image")
        let start = (y * width + x) * 4
        return Pixel(
            red: pixels[start],
            green: pixels[start + 1],
            blue: pixels[start + 2],
            alpha: pixels[start + 3]
        )
    }
}
