// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// Changes the bytes of an accepted response before another serializer reads them.
public struct PreprocessedResponseSerializer<Base: ValidatingResponseSerializer>: ValidatingResponseSerializer {
    private var base: Base
    private let transform: @Sendable (_ bytes: [UInt8]) throws -> [UInt8]

    init(_ base: Base, _ transform: @escaping @Sendable (_ bytes: [UInt8]) throws -> [UInt8]) {
        self.base = base
        self.transform = transform
    }

    /// The other serializer's validation; its check receives the bytes as they were received.
    public var validation: ResponseValidation {
        get { base.validation }
        set { base.validation = newValue }
    }

    /// The other serializer's object, made from the changed bytes. An empty body is not changed.
    ///
    /// - Throws: the other serializer's error, or `custom` with the error of the change.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending Base.Output {
        guard !response.data.isEmpty else { return try base.serialize(response, to: method) }
        // An error of the change must not hide that the response is rejected.
        try base.validation.validate(response)
        let bytes: [UInt8]
        do {
            bytes = try transform(response.data)
        } catch {
            throw ResponseSerializationError(.custom(error), response: response)
        }
        var validated = base
        validated.validation.check = nil
        var changed = DataResponse(
            response: response.response,
            url: response.url,
            data: bytes,
            trailers: response.trailers,
            metrics: response.metrics
        )
        changed.decoder = response.decoder
        return try validated.serialize(changed, to: method)
    }
}

extension ValidatingResponseSerializer {
    /// Changes the bytes of the body before they are read.
    ///
    /// - Parameter transform: called once for an accepted response with a body; its errors become the reason `custom`.
    public func preprocess(
        _ transform: @escaping @Sendable (_ bytes: [UInt8]) throws -> [UInt8]
    ) -> PreprocessedResponseSerializer<Self> {
        PreprocessedResponseSerializer(self, transform)
    }

    /// Removes a prefix from the body if it begins with it, such as `)]}',` and a line feed, by which some services keep
    /// browsers from running their JSON as a script.
    ///
    /// - Parameter prefix: as UTF-8.
    public func removingPrefix(_ prefix: String) -> PreprocessedResponseSerializer<Self> {
        let prefix = [UInt8](prefix.utf8)
        return preprocess { $0.starts(with: prefix) ? [UInt8]($0.dropFirst(prefix.count)) : $0 }
    }
}
