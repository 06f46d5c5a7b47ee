// SPDX-License-Identifier: Apache-2.0
public import Foundation
import HTTPCore
public import HTTPSessionCore
public import SessionCore

/// Writes parameters as a property list; in the URL's query for GET, HEAD and DELETE.
public struct PropertyListRequestSerializer: RequestSerializer {
    /// Fields and limits of each request.
    public var settings: RequestSettings
    /// The format, XML or binary; Foundation does not write the old ASCII format.
    public var format: PropertyListSerialization.PropertyListFormat

    /// A serializer for XML by default.
    public init(
        settings: RequestSettings = RequestSettings(),
        format: PropertyListSerialization.PropertyListFormat = .xml
    ) {
        self.settings = settings
        self.format = format
    }

    /// - Throws: `requestInvalid`, also for null, which property lists cannot express. Sets become sorted arrays.
    public func serialize(
        _ request: HTTPSessionRequest,
        parameters: ParameterValue?
    ) throws(SessionError) -> HTTPSessionRequest {
        // Without parameters the other serializer does everything: fields, limits, the URL's query.
        let http = HTTPRequestSerializer(settings: settings)
        guard let parameters, !settings.methodsEncodingParametersInURI.contains(request.method) else {
            return try http.serialize(request, parameters: parameters)
        }
        guard format != .openStep else {
            throw SessionError(.requestInvalid, "Property lists are written as XML or binary.")
        }
        var request = try http.serialize(request, parameters: nil)
        do {
            let data = try PropertyListSerialization.data(
                fromPropertyList: try Self.object(parameters),
                format: format,
                options: 0
            )
            request.body = .bytes(Array(data))
        } catch let error as SessionError {
            throw error
        } catch {
            throw SessionError(.requestInvalid, "The parameters are no property list: \(error).")
        }
        request.headers["Content-Type"] = request.headers["Content-Type"] ?? "application/x-plist"
        return request
    }

    private static func object(_ value: ParameterValue) throws(SessionError) -> Any {
        switch value {
        case .null: throw SessionError(.requestInvalid, "A property list has no null.")
        case .bool(let flag): return flag
        case .int(let number): return number
        case .unsigned(let number): return number
        case .double(let number): return number
        case .number(let number):
            throw SessionError(.requestInvalid, "A property list cannot hold \(number) to its last digit.")
        case .string(let text): return text
        case .array(let elements): return try objects(elements)
        case .set: return try objects(value.elementsInOrder)
        case .dictionary(let members):
            var object: [String: Any] = [:]
            for (key, member) in members { object[key] = try Self.object(member) }
            return object
        }
    }

    private static func objects(_ elements: [ParameterValue]) throws(SessionError) -> [Any] {
        var objects: [Any] = []
        for element in elements { objects.append(try object(element)) }
        return objects
    }
}
