public import HTTPCore

/// Makes an object of an answer, or says why it cannot.
public protocol ResponseSerializer<Output>: Sendable {
    /// What it makes of an answer.
    associatedtype Output

    /// The object of an answer, whatever its status: to refuse some is for the serializer, by its `ResponseValidation`.
    ///
    /// - Parameters:
    ///   - response: head, whole body, trailers and metrics.
    ///   - method: of the request; the answer to a HEAD has no body.
    func serialize(_ response: DataResponse, to method: HTTPMethod) throws(ResponseSerializationError) -> sending Output
}

extension ResponseSerializer {
    /// The same for the answer to a GET.
    public func serialize(_ response: DataResponse) throws(ResponseSerializationError) -> sending Output {
        try serialize(response, to: .get)
    }
}

/// The body as it is, after validation. An answer without a body is an empty array.
public struct HTTPResponseSerializer: ResponseSerializer {
    /// What the answer has to be before its body is looked at.
    public var validation: ResponseValidation

    /// Statuses 200 to 299 and any content type, unless told otherwise.
    public init(validation: ResponseValidation = ResponseValidation()) {
        self.validation = validation
    }

    /// The bytes of an answer that `validation` takes.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending [UInt8] {
        try validation.validate(response)
        return response.data
    }
}

/// Text, of the charset that the answer names.
public struct StringResponseSerializer: ResponseSerializer {
    /// What the answer has to be before its body is looked at.
    public var validation: ResponseValidation
    /// Instead of the answer's; nil for the answer's, and `fallback` when it names none.
    public var encoding: TextEncoding?
    /// For answers that name no charset: UTF-8, which has ASCII in it.
    public var fallback = TextEncoding.utf8

    /// Statuses 200 to 299 and any content type, unless told otherwise.
    public init(validation: ResponseValidation = ResponseValidation(), encoding: TextEncoding? = nil) {
        self.validation = validation
        self.encoding = encoding
    }

    /// The text, of the charset `encoding`, or the answer's, or `fallback`; empty for an answer that has no body and needs
    /// none.
    ///
    /// - Throws: also `stringDecodingFailed` for a charset that is not known, and for bytes that are none of its text.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending String {
        if try validation.validateEmptiness(response, to: method) { return "" }
        let named = response.response.fields.value(for: "Content-Type").flatMap { MediaType($0)?.charset }
        let charset = encoding?.charset ?? named ?? fallback.charset
        guard let text = TextEncoding(charset: charset)?.decode(response.data) else {
            throw ResponseSerializationError(.stringDecodingFailed(charset: charset), response: response)
        }
        return text
    }
}

/// The first of several serializers that takes the answer.
public struct CompoundResponseSerializer<Output>: ResponseSerializer {
    /// Asked in this order.
    public var serializers: [any ResponseSerializer<Output>]

    /// Takes what the first of these makes that does not throw.
    public init(_ serializers: [any ResponseSerializer<Output>]) {
        self.serializers = serializers
    }

    /// - Throws: `allSerializersFailed`, with what each of them said.
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

/// Another serializer's object, turned into something else: to bring several under one type for
/// `CompoundResponseSerializer`.
public struct MappedResponseSerializer<Base: ResponseSerializer, Output>: ResponseSerializer {
    private let base: Base
    private let transform: @Sendable (sending Base.Output) throws -> sending Output

    init(_ base: Base, _ transform: @escaping @Sendable (sending Base.Output) throws -> sending Output) {
        self.base = base
        self.transform = transform
    }

    /// The other serializer's object, transformed.
    ///
    /// - Throws: what the other serializer throws, and `custom` with what the transformation throws.
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
    /// - Parameter transform: what it throws becomes the reason `custom`.
    public func map<Other>(
        _ transform: @escaping @Sendable (sending Output) throws -> sending Other
    ) -> MappedResponseSerializer<Self, Other> {
        MappedResponseSerializer(self, transform)
    }
}
