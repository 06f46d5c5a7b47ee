// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import HTTPSessionCore

/// Decodes an image: its size, its format and its pixels. PNG and JPEG are recognised by their first bytes.
///
/// It rejects truncated and damaged files, and images of more pixels than `maximumPixelCount` before it allocates
/// memory for them.
public struct ImageResponseSerializer: ValidatingResponseSerializer {
    /// The required status and content type.
    public var validation: ResponseValidation
    /// Whether pixels are decoded; otherwise only the head is read, for format and size.
    public var decodesPixels: Bool
    /// The largest number of pixels, by default 64 Mi; a decoded pixel takes four bytes.
    public var maximumPixelCount: Int

    /// A serializer that by default accepts statuses 200 to 299 with `image/png` or `image/jpeg`.
    public init(
        validation: ResponseValidation = ResponseValidation(acceptableContentTypes: ["image/png", "image/jpeg"]),
        decodesPixels: Bool = true,
        maximumPixelCount: Int = 64 << 20
    ) {
        self.validation = validation
        self.decodesPixels = decodesPixels
        self.maximumPixelCount = maximumPixelCount
    }

    /// The image; nil for a response that may have no body, and has none.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending DecodedImage? {
        if try validation.validateEmptiness(response, to: method) { return nil }
        do throws(ImageDecoder.Fault) {
            return try ImageDecoder(response.data).decode(
                maximumPixelCount: maximumPixelCount,
                decodesPixels: decodesPixels
            )
        } catch {
            throw ResponseSerializationError(.invalidImage(error.words), response: response)
        }
    }
}
