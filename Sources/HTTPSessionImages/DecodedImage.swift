/// An image's pixels.
public struct DecodedImage: Sendable, Hashable {
    /// How the file is written.
    public enum Format: Sendable, Hashable {
        /// PNG (ISO/IEC 15948).
        case png
        /// JPEG (ITU-T T.81), in one go or progressive.
        case jpeg
    }

    /// One pixel, 8 bits a channel, as they stand in the file: sRGB, in most.
    public struct Pixel: Sendable, Hashable {
        /// From 0 to 255.
        public var red: UInt8
        /// From 0 to 255.
        public var green: UInt8
        /// From 0 to 255.
        public var blue: UInt8
        /// 255 is opaque; the colours are not multiplied by it.
        public var alpha: UInt8

        /// Opaque, unless told otherwise.
        public init(red: UInt8, green: UInt8, blue: UInt8, alpha: UInt8 = 255) {
            self.red = red
            self.green = green
            self.blue = blue
            self.alpha = alpha
        }
    }

    /// By the file's first bytes.
    public let format: Format
    /// In pixels, as they are stored: an orientation that the file asks for (Exif) is not carried out.
    public let width: Int
    /// In pixels.
    public let height: Int
    /// Whether the file has transparency; without, alpha is 255.
    public let hasAlpha: Bool
    /// `width * height * 4` bytes: red, green, blue, alpha, row by row from the top. Empty when only the size was asked
    /// for.
    public let pixels: [UInt8]

    init(format: Format, width: Int, height: Int, hasAlpha: Bool, pixels: [UInt8]) {
        self.format = format
        self.width = width
        self.height = height
        self.hasAlpha = hasAlpha
        self.pixels = pixels
    }

    /// The pixel at a place from the top left; the place has to be within the image, and the pixels decoded.
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
