// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import SessionCore

/// A response, and the object that a serializer has made from it.
public struct SerializedResponse<Value> {
    /// The serialized object.
    public let value: Value
    /// The response: head, bytes, trailers, metrics.
    public let response: DataResponse
}

extension SerializedResponse: Sendable where Value: Sendable {}

extension SerializedResponse {
    /// The same response with another value, as Alamofire's `map` and `tryMap` make it.
    ///
    /// - Parameter transform: makes the value; what it throws is thrown.
    public func map<Other, Failure: Error>(
        _ transform: (Value) throws(Failure) -> Other
    ) throws(Failure) -> SerializedResponse<Other> {
        SerializedResponse<Other>(value: try transform(value), response: response)
    }
}

/// Another serializer, without its type: for a manager's `responseSerializer`.
public struct AnyResponseSerializer: ResponseSerializer {
    private typealias Serializing =
        @Sendable (DataResponse, HTTPMethod) throws(ResponseSerializationError) -> any Sendable

    /// nil: the manager's is used.
    private let serializing: Serializing?

    /// A serializer with the objects of another one, as `any Sendable`.
    public init<Base: ResponseSerializer>(_ base: Base) where Base.Output: Sendable {
        serializing = { response, method throws(ResponseSerializationError) in
            try base.serialize(response, to: method)
        }
    }

    private init() { serializing = nil }

    /// The `responseSerializer` of the manager that carries the request out.
    public static var manager: AnyResponseSerializer { AnyResponseSerializer() }

    /// Whether it stands for the manager's serializer.
    var isManagers: Bool { serializing == nil }

    /// The other serializer's object.
    ///
    /// - Throws: the other serializer's error.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending any Sendable {
        guard let serializing else {
            let error = SessionError(.requestInvalid, "AnyResponseSerializer.manager has no manager here.")
            throw ResponseSerializationError(.custom(error), response: response)
        }
        return try serializing(response, method)
    }
}

// Serializers by name for a manager: `manager.responseSerializer = .json`.
extension AnyResponseSerializer {
    /// The bytes of the body, of a response with status 200 to 299.
    public static var data: AnyResponseSerializer { AnyResponseSerializer(HTTPResponseSerializer()) }
    /// Text, of a response with status 200 to 299.
    public static var string: AnyResponseSerializer { AnyResponseSerializer(StringResponseSerializer()) }
    /// `JSONValue`, of a response with status 200 to 299 and a content type of JSON.
    public static var json: AnyResponseSerializer { AnyResponseSerializer(JSONResponseSerializer()) }
}

extension ResponseSerializer where Self == AnyResponseSerializer {
    /// The `responseSerializer` of the manager that carries the request out.
    public static var manager: AnyResponseSerializer { AnyResponseSerializer.manager }
}
