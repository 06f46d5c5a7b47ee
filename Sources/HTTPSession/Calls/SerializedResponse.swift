public import HTTPCore

/// An answer, and what a serializer has made of it.
public struct SerializedResponse<Value> {
    /// What the serializer has made.
    public let value: Value
    /// The answer itself: head, bytes, trailers, metrics.
    public let response: DataResponse
}

extension SerializedResponse: Sendable where Value: Sendable {}

/// Another serializer, without its type: for a manager's `responseSerializer`.
public struct AnyResponseSerializer: ResponseSerializer {
    private let serializing: @Sendable (DataResponse, HTTPMethod) -> Result<HandOver<Any>, ResponseSerializationError>

    /// The same serializer, whose objects come as `Any`.
    public init<Base: ResponseSerializer>(_ base: Base) {
        serializing = { response, method in
            let box = HandOver<Any>()
            do throws(ResponseSerializationError) {
                box.put(try base.serialize(response, to: method))
                return .success(box)
            } catch {
                return .failure(error)
            }
        }
    }

    /// What the other serializer makes of the answer, as `Any`.
    ///
    /// - Throws: what the other serializer throws.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending Any {
        try serializing(response, method).get().consume()
    }
}
