// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// Makes an object from a response, or throws the reason why it cannot.
public protocol ResponseSerializer<Output>: Sendable {
    /// The type of the object.
    associatedtype Output

    /// Makes the object, for a response of any status: the serializer rejects statuses, by its `ResponseValidation`.
    ///
    /// - Parameters:
    ///   - response: head, complete body, trailers and metrics.
    ///   - method: the method of the request; the response to HEAD has no body.
    func serialize(_ response: DataResponse, to method: HTTPMethod) throws(ResponseSerializationError) -> sending Output
}

extension ResponseSerializer {
    /// The same for a response to GET.
    public func serialize(_ response: DataResponse) throws(ResponseSerializationError) -> sending Output {
        try serialize(response, to: .get)
    }
}

/// A serializer that validates a response by its `ResponseValidation`, as all serializers of this library do that read one
/// format.
public protocol ValidatingResponseSerializer<Output>: ResponseSerializer {
    /// The required status and content type.
    var validation: ResponseValidation { get set }
}

/// Returns the bytes of the body after validation. They are empty for a response without a body.
public struct HTTPResponseSerializer: ValidatingResponseSerializer {
    /// The required status and content type.
    public var validation: ResponseValidation

    /// A serializer that by default accepts statuses 200 to 299 and any content type.
    public init(validation: ResponseValidation = ResponseValidation()) {
        self.validation = validation
    }

    /// The bytes of the body.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending [UInt8] {
        try validation.validate(response)
        return response.data
    }
}

/// Decodes text in the charset that the response names.
public struct StringResponseSerializer: ValidatingResponseSerializer {
    /// The required status and content type.
    public var validation: ResponseValidation
    /// The charset in place of the response's; nil for the response's, or one of `fallbacks` when it names none.
    public var encoding: TextEncoding?
    /// The charsets for responses that name none; the first in which the bytes are valid is used. UTF-8 by default, which
    /// includes ASCII. `[.utf8, .windows1252]` reads also what older servers send.
    public var fallbacks: [TextEncoding]

    /// A serializer that by default accepts statuses 200 to 299 and any content type.
    public init(
        validation: ResponseValidation = ResponseValidation(),
        encoding: TextEncoding? = nil,
        fallbacks: [TextEncoding] = [.utf8]
    ) {
        self.validation = validation
        self.encoding = encoding
        self.fallbacks = fallbacks
    }

    /// The text in the charset `encoding`, or the response's, or one of `fallbacks`; empty for a response that may have
    /// no body, and has none.
    ///
    /// - Throws: also `stringDecodingFailed` for an unknown charset, and for bytes that are invalid in it.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending String {
        if try validation.validateEmptiness(response, to: method) { return "" }
        let named = response.response.fields.value(for: "Content-Type").flatMap { MediaType($0)?.charset }
        let charsets = (encoding?.charset ?? named).map { [$0] } ?? fallbacks.map(\.charset)
        for charset in charsets {
            if let text = TextEncoding(charset: charset)?.decode(response.data) { return text }
        }
        let tried = charsets.joined(separator: ", ")
        throw ResponseSerializationError(.stringDecodingFailed(charset: tried), response: response)
    }
}

/// Uses the first of several serializers that accepts the response.
public struct CompoundResponseSerializer<Output>: ResponseSerializer {
    /// The serializers, in this order.
    public var serializers: [any ResponseSerializer<Output>]

    /// A serializer that returns the object of the first of these that does not throw.
    public init(_ serializers: [any ResponseSerializer<Output>]) {
        self.serializers = serializers
    }

    /// - Throws: `allSerializersFailed`, with all their errors.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending Output {
        var errors: [ResponseSerializationError] = []
        for serializer in serializers {
            do throws(ResponseSerializationError) {
                return try serializer.serialize(response, to: method)
            } catch {
                errors.append(error)
            }
        }
        throw ResponseSerializationError(.allSerializersFailed(errors), response: response)
    }
}

/// Transforms another serializer's object: it gives several serializers one type for `CompoundResponseSerializer`.
public struct MappedResponseSerializer<Base: ResponseSerializer, Output>: ResponseSerializer {
    private let base: Base
    private let transform: @Sendable (sending Base.Output) throws -> sending Output

    init(_ base: Base, _ transform: @escaping @Sendable (sending Base.Output) throws -> sending Output) {
        self.base = base
        self.transform = transform
    }

    /// The other serializer's object, transformed.
    ///
    /// - Throws: the other serializer's error, or `custom` with the transformation's error.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending Output {
        let object = try base.serialize(response, to: method)
        do {
            return try transform(object)
        } catch {
            throw ResponseSerializationError(.custom(error), response: response)
        }
    }
}

extension ResponseSerializer {
    /// - Parameter transform: its errors become the reason `custom`.
    public func map<Other>(
        _ transform: @escaping @Sendable (sending Output) throws -> sending Other
    ) -> MappedResponseSerializer<Self, Other> {
        MappedResponseSerializer(self, transform)
    }
}
