public import HTTPCore
public import HTTPSession

/// An image: its size, its format and its pixels. PNG and JPEG, told apart by their first bytes.
///
/// A file that breaks off or is damaged is refused, as is one of more pixels than `maximumPixelCount`, before room is
/// made for them.
public struct ImageResponseSerializer: ResponseSerializer {
    /// What the answer has to be before it is decoded.
    public var validation: ResponseValidation
    /// False: only the file's head is read, for format and size.
    public var decodesPixels: Bool
    /// A decoded pixel takes four bytes; 64 Mi pixels, unless told otherwise.
    public var maximumPixelCount: Int

    /// Statuses 200 to 299 with `image/png` or `image/jpeg`, unless told otherwise.
    public init(
        validation: ResponseValidation = ResponseValidation(acceptableContentTypes: ["image/png", "image/jpeg"]),
        decodesPixels: Bool = true,
        maximumPixelCount: Int = 64 << 20
    ) {
        self.validation = validation
        self.decodesPixels = decodesPixels
        self.maximumPixelCount = maximumPixelCount
    }

    /// nil for an answer that has no body and needs none.
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
