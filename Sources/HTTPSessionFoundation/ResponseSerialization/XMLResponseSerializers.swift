import Foundation
public import HTTPCore
public import HTTPSession

#if canImport(FoundationXML)
public import FoundationXML
#endif

/// What XML is served as.
public enum XMLContentTypes {
    /// `application/xml` and `text/xml`.
    public static let all = ["application/xml", "text/xml"]
}

/// An `XMLParser` over the body, which has not begun: give it a delegate and call `parse`. External entities are not
/// loaded. An answer that has no body and needs none is a parser over nothing.
///
/// Foundation's parser on Linux says yes to documents that break off: look at `parserError`, and count elements, or use
/// `XMLDocumentResponseSerializer`.
public struct XMLParserResponseSerializer: ResponseSerializer {
    /// What the answer has to be before it is read.
    public var validation: ResponseValidation

    /// Statuses 200 to 299 with the types of `XMLContentTypes`, unless told otherwise.
    public init(validation: ResponseValidation = ResponseValidation(acceptableContentTypes: XMLContentTypes.all)) {
        self.validation = validation
    }

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

/// The body as an XML tree; what is not well formed is refused. External entities are not loaded.
public struct XMLDocumentResponseSerializer: ResponseSerializer {
    /// What the answer has to be before it is read.
    public var validation: ResponseValidation
    /// Without those that load external entities, which would let an answer read files and reach other servers.
    public var options: XMLNode.Options

    /// Statuses 200 to 299 with the types of `XMLContentTypes`, unless told otherwise.
    public init(
        validation: ResponseValidation = ResponseValidation(acceptableContentTypes: XMLContentTypes.all),
        options: XMLNode.Options = []
    ) {
        self.validation = validation
        self.options = options
    }

    /// nil for an answer that has no body and needs none.
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
