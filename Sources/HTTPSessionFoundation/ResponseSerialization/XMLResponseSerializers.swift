// SPDX-License-Identifier: Apache-2.0
import Foundation
public import HTTPCore
public import HTTPSessionCore

#if canImport(FoundationXML)
public import FoundationXML
#endif

/// The content types of XML.
public enum XMLContentTypes {
    /// `application/xml` and `text/xml`.
    public static let all = ["application/xml", "text/xml"]
}

/// Returns an `XMLParser` for the body: give it a delegate and call `parse`. External entities are not loaded. A
/// response that may have no body, and has none, is a parser for empty data.
///
/// Foundation's parser on Linux accepts truncated documents: check `parserError`, and count elements, or use
/// `XMLDocumentResponseSerializer`.
public struct XMLParserResponseSerializer: ValidatingResponseSerializer {
    /// The required status and content type.
    public var validation: ResponseValidation

    /// A serializer that by default accepts statuses 200 to 299 with the types of `XMLContentTypes`.
    public init(validation: ResponseValidation = ResponseValidation(acceptableContentTypes: XMLContentTypes.all)) {
        self.validation = validation
    }

    /// A parser over the body, which has not begun; it reads no external entities.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending XMLParser {
        _ = try validation.validateEmptiness(response, to: method)
        let parser = XMLParser(data: Data(response.data))
        parser.shouldResolveExternalEntities = false
        return parser
    }
}

/// Reads the body as an XML tree, and rejects a body that is not well-formed. External entities are not loaded.
public struct XMLDocumentResponseSerializer: ValidatingResponseSerializer {
    /// The required status and content type.
    public var validation: ResponseValidation
    /// The options without those that load external entities, since a response could then read files and reach other
    /// servers.
    public var options: XMLNode.Options

    /// A serializer that by default accepts statuses 200 to 299 with the types of `XMLContentTypes`.
    public init(
        validation: ResponseValidation = ResponseValidation(acceptableContentTypes: XMLContentTypes.all),
        options: XMLNode.Options = []
    ) {
        self.validation = validation
        self.options = options
    }

    /// The tree; nil for a response that may have no body, and has none.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending XMLDocument? {
        if try validation.validateEmptiness(response, to: method) { return nil }
        let data = Data(response.data)
        if let fault = XMLWellFormedness.fault(in: data) {
            throw ResponseSerializationError(.invalidXML(fault), response: response)
        }
        let loading: XMLNode.Options = [.nodeLoadExternalEntitiesAlways, .nodeLoadExternalEntitiesSameOriginOnly]
        do {
            return try XMLDocument(
                data: data,
                options: options.subtracting(loading).union(.nodeLoadExternalEntitiesNever)
            )
        } catch {
            throw ResponseSerializationError(.invalidXML("\(error)"), response: response)
        }
    }
}
