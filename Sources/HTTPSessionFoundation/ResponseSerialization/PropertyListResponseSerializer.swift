public import Foundation
public import HTTPCore
public import HTTPSession

/// A property list, as Foundation's objects.
public struct PropertyListResponseSerializer: ResponseSerializer {
    /// What the answer has to be before it is read.
    public var validation: ResponseValidation
    /// Foundation's: whether what comes may be changed.
    public var readOptions: PropertyListSerialization.ReadOptions

    /// Statuses 200 to 299 with `application/x-plist`, unless told otherwise.
    public init(
        validation: ResponseValidation = ResponseValidation(acceptableContentTypes: ["application/x-plist"]),
        readOptions: PropertyListSerialization.ReadOptions = []
    ) {
        self.validation = validation
        self.readOptions = readOptions
    }

    /// nil for an answer that has no body and needs none.
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
