public import HTTPCore

/// A response, and the object that a serializer has made from it.
public struct SerializedResponse<Value> {
    /// The serialized object.
    public let value: Value
    /// The response: head, bytes, trailers, metrics.
    public let response: DataResponse
}

extension SerializedResponse: Sendable where Value: Sendable {}

/// Another serializer, without its type: for a manager's `responseSerializer`.
public struct AnyResponseSerializer: ResponseSerializer {
    private let serializing: @Sendable (DataResponse, HTTPMethod) -> Result<HandOver<Any>, ResponseSerializationError>

    /// A serializer with the objects of another one, as `Any`.
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

    /// The other serializer's object, as `Any`.
    ///
    /// - Throws: the other serializer's error.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending Any {
        try serializing(response, method).get().consume()
    }
}
