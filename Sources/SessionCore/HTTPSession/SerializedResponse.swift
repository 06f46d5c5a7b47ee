public import HTTPCore

/// An answer, and what a serializer has made of it.
public struct SerializedResponse<Value> {
    public let value: Value
    public let response: DataResponse
}

extension SerializedResponse: Sendable where Value: Sendable {}

/// Another serializer, without its type: for a manager's `responseSerializer`.
public struct AnyResponseSerializer: ResponseSerializer {
    private let serializing: @Sendable (DataResponse, HTTPMethod) -> Result<HandOver<Any>, ResponseSerializationError>

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

    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending Any {
        try serializing(response, method).get().take()
    }
}
