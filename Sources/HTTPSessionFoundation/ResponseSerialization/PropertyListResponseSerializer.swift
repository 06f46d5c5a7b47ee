// SPDX-License-Identifier: Apache-2.0
public import Foundation
public import HTTPCore
public import HTTPSessionCore

/// Reads a property list as Foundation's objects.
public struct PropertyListResponseSerializer: ValidatingResponseSerializer {
    /// The required status and content type.
    public var validation: ResponseValidation
    /// Foundation's options: whether the objects are mutable.
    public var readOptions: PropertyListSerialization.ReadOptions

    /// A serializer that by default accepts statuses 200 to 299 with `application/x-plist`.
    public init(
        validation: ResponseValidation = ResponseValidation(acceptableContentTypes: ["application/x-plist"]),
        readOptions: PropertyListSerialization.ReadOptions = []
    ) {
        self.validation = validation
        self.readOptions = readOptions
    }

    /// The object; nil for a response that may have no body, and has none.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending Any? {
        if try validation.validateEmptiness(response, to: method) { return nil }
        do {
            return try PropertyListSerialization.propertyList(
                from: Data(response.data),
                options: readOptions,
                format: nil
            )
        } catch {
            throw ResponseSerializationError(.invalidPropertyList("\(error)"), response: response)
        }
    }
}
