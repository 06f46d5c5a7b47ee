// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionFoundation
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

#if canImport(FoundationXML)
import FoundationXML
import HTTPSessionCodable
#endif

@Suite("Serialization with Foundation", .onOwnThreads)
struct FoundationSerializationTests {
    private static let url = "https://api.example.com/items"

    // MARK: Dates

    @Test("a formatter of Foundation writes and reads dates")
    func formattedDates() throws {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "dd.MM.yyyy"
        let dates = [Date(timeIntervalSince1970: 0), Date(timeIntervalSince1970: 1_000_000_000)]
        var encoder = ParameterValueEncoder()
        encoder.dateEncodingStrategy = .formatted(formatter)
        #expect(try JSONValue(encoder.encode(dates)) == ["01.01.1970", "09.09.2001"])
        let serializer = HTTPRequestSerializer()
        let since = try ParameterValue(encoding: ["since": dates[1]], with: encoder)
        let request = try serializer.request(.get, Self.url, parameters: since)
        #expect(request.url == Self.url + "?since=09.09.2001")
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .formatted(formatter)
        let read = try decoder.decode([Date].self, from: Array("[\"01.01.1970\",\"09.09.2001\"]".utf8))
        #expect(read == [dates[0], Date(timeIntervalSince1970: 999_993_600)])
        #expect(throws: (any Error).self) { try decoder.decode([Date].self, from: Array("[\"1970\"]".utf8)) }
    }

    // MARK: Decimal

    private struct Price: Encodable {
        var whole: Decimal = 12
        var cents: Decimal = Decimal(string: "0.1")!
        var long: Decimal = Decimal(string: "1234567890123456789.0123456789")!
        var list = [Decimal(string: "-2.50")!]
        var none: Decimal?
    }

    @Test("a Decimal is one number, to its last digit")
    func decimals() throws {
        let expected: ParameterValue = [
            "whole": 12, "cents": 0.1, "long": .number(JSONNumber("1234567890123456789.0123456789")!), "list": [-2.5],
        ]
        #expect(try ParameterValue(encoding: Price()) == expected)
        #expect(try ParameterValue(encoding: Decimal(string: "1e20")!) == .number(JSONNumber("100000000000000000000")!))
        let request = try HTTPRequestSerializer().request(
            .get,
            Self.url,
            parameters: ParameterValue(encoding: Price())
        )
        #expect(
            request.url == Self.url + "?cents=0.1&list%5B%5D=-2.5&long=1234567890123456789.0123456789&whole=12"
        )
    }

    // MARK: Property lists

    @Test(
        "parameters are a property list that reads back as the same",
        arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary]
    )
    func propertyListRequest(format: PropertyListSerialization.PropertyListFormat) throws {
        let parameters: ParameterValue = ["a": [1, 2.5, true, "x"], "s": .set([2, 1]), "d": ["k": .int(.max)]]
        let request = try PropertyListRequestSerializer(format: format).request(.post, Self.url, parameters: parameters)
        #expect(request.headers.value(for: "Content-Type") == "application/x-plist")
        guard case .bytes(let bytes) = request.body else {
            Issue.record("no body")
            return
        }
        var found = PropertyListSerialization.PropertyListFormat.openStep
        let object = try PropertyListSerialization.propertyList(from: Data(bytes), options: [], format: &found)
        let list = try #require(object as? [String: Any])
        #expect(found == format)
        #expect((list["s"] as? [Int]) == [1, 2])
        #expect((list["d"] as? [String: Int]) == ["k": .max])
        let array = try #require(list["a"] as? [Any])
        #expect(array.count == 4)
        #expect(array[2] as? Bool == true)
    }

    @Test("GET parameters go into the URL; without parameters there is no body")
    func propertyListInURL() throws {
        let serializer = PropertyListRequestSerializer()
        #expect(try serializer.request(.get, Self.url, parameters: ["a": 1]).url == Self.url + "?a=1")
        #expect(try serializer.request(.post, Self.url).headers.value(for: "Content-Type") == nil)
        var typed = HTTPSessionRequest(url: Self.url, method: .post)
        typed.headers.append(name: "Content-Type", value: "own/type")
        #expect(try serializer.serialize(typed, parameters: [1]).headers.values(for: "Content-Type") == ["own/type"])
    }

    @Test("null, and the format that cannot be written, are refused")
    func badPropertyLists() {
        #expect(throws: SessionError.self) {
            try PropertyListRequestSerializer().request(.post, Self.url, parameters: ["a": [nil]])
        }
        #expect(throws: SessionError.self) {
            try PropertyListRequestSerializer(format: .openStep).request(.post, Self.url, parameters: ["a": 1])
        }
    }

    private static func propertyList(_ object: Any) throws -> [UInt8] {
        Array(try PropertyListSerialization.data(fromPropertyList: object, format: .binary, options: 0))
    }

    @Test("a property list is read when it is served as one")
    func propertyListResponse() throws {
        let bytes = try Self.propertyList(["a": [1, 2]])
        let serializer = PropertyListResponseSerializer()
        let object = try serializer.serialize(dataResponse(bytes, type: "application/x-plist"))
        #expect((object as? [String: [Int]]) == ["a": [1, 2]])
        let mutable = PropertyListResponseSerializer(readOptions: .mutableContainers)
        #expect(
            (try mutable.serialize(dataResponse(bytes, type: "application/x-plist")) as? [String: [Int]]) == [
                "a": [1, 2]
            ]
        )
        #expect(try serializer.serialize(dataResponse(status: 204)) == nil)
    }

    @Test("another status or type, or an invalid property list, is its own error")
    func badPropertyListResponses() {
        let serializer = PropertyListResponseSerializer()
        let cases: [(DataResponse, String)] = [
            (dataResponse("x", status: 404, type: "application/x-plist"), "The status 404"),
            (dataResponse("x", type: "text/plain"), "The content type text/plain"),
            (dataResponse("<plist><dict>", type: "application/x-plist"), "The body is no property list"),
            (dataResponse(type: "application/x-plist"), "The response has no body"),
        ]
        for (response, words) in cases {
            let error = #expect(throws: ResponseSerializationError.self) { try serializer.serialize(response) }
            #expect(error?.description.hasPrefix(words) == true, "\(words)")
        }
    }

    // MARK: Decoders

    private struct Event: Codable, Equatable, Sendable {
        var happenedAt: Date
    }

    @Test("Foundation's decoders bring their strategies")
    func decoders() throws {
        let json = JSONDecoder()
        json.dateDecodingStrategy = .iso8601
        json.keyDecodingStrategy = .convertFromSnakeCase
        let serializer = DecodableResponseSerializer(Event.self, decoder: json)
        let event = try serializer.serialize(
            dataResponse(#"{"happened_at":"1970-01-01T00:01:00Z"}"#, type: "application/json")
        )
        #expect(event == Event(happenedAt: Date(timeIntervalSince1970: 60)))
        let bytes = Array(try PropertyListEncoder().encode(event))
        let list = DecodableResponseSerializer(
            Event.self,
            validation: ResponseValidation(acceptableContentTypes: ["application/x-plist"]),
            decoder: PropertyListDecoder()
        )
        #expect(try list.serialize(dataResponse(bytes, type: "application/x-plist")) == event)
        #expect(throws: ResponseSerializationError.self) {
            try list.serialize(dataResponse("{}", type: "application/x-plist"))
        }
    }

    @Test("any JSON is decoded by Foundation's decoder too")
    func jsonValue() throws {
        let value = try JSONDecoder().decode(JSONValue.self, from: Data(#"{"a":[1,2.5,true,null,"x",{}]}"#.utf8))
        #expect(value["a"]?[0]?.int == 1)
        #expect(value["a"]?[1]?.double == 2.5)
        #expect(value["a"]?[3]?.isNull == true)
        #expect(value["a"]?[4]?.string == "x")
    }

    // MARK: XML

    private final class Elements: NSObject, XMLParserDelegate {
        var names: [String] = []

        func parser(
            _ parser: XMLParser,
            didStartElement elementName: String,
            namespaceURI: String?,
            qualifiedName qName: String?,
            attributes attributeDict: [String: String] = [:]
        ) {
            names.append(elementName)
        }
    }

    @Test("a parser stands ready over the body", arguments: XMLContentTypes.all)
    func xmlParser(type: String) throws {
        let parser = try XMLParserResponseSerializer().serialize(dataResponse("<a><b/><c/></a>", type: type))
        let elements = Elements()
        parser.delegate = elements
        #expect(parser.parse())
        #expect(elements.names == ["a", "b", "c"])
    }

    @Test("a document is the tree of the body")
    func xmlDocument() throws {
        let document = try XMLDocumentResponseSerializer().serialize(
            dataResponse("<list><item n=\"1\">x</item></list>", type: "application/xml; charset=utf-8")
        )
        let item = try #require(document?.rootElement()?.elements(forName: "item").first)
        #expect(item.stringValue == "x")
        #expect(item.attribute(forName: "n")?.stringValue == "1")
        #expect(try XMLDocumentResponseSerializer().serialize(dataResponse(status: 204)) == nil)
    }

    @Test("another type, another status, no body and no XML are errors")
    func badXML() {
        for response in [
            dataResponse("<a/>", type: "application/json"), dataResponse("<a/>", status: 500, type: "text/xml"),
            dataResponse(type: "text/xml"),
        ] {
            #expect(throws: ResponseSerializationError.self) {
                try XMLDocumentResponseSerializer().serialize(response)
            }
        }
        for response in [dataResponse("<a/>", type: "text/html"), dataResponse("<a/>", status: 500, type: "text/xml")] {
            #expect(throws: ResponseSerializationError.self) { try XMLParserResponseSerializer().serialize(response) }
        }
    }

    @Test(
        "a document that is not well-formed is refused, even where Foundation takes it",
        arguments: [
            "<a>", "<a", "x", " ", "<a>text", "<a><b/>", "<a><b></a>", "<a></b>", "<a/><b/>", "<a/>x", "<a>&x;</a>",
            "<a>\u{1}</a>", "<a b='1' b='2'/>",
        ]
    )
    func malformedXML(text: String) {
        let error = #expect(throws: ResponseSerializationError.self) {
            try XMLDocumentResponseSerializer().serialize(dataResponse(text, type: "text/xml"))
        }
        guard case .invalidXML = error?.reason else {
            Issue.record("another reason: \(error?.description ?? "none")")
            return
        }
    }

    @Test(
        "odd namespaces and versions do not make a document another than it is",
        arguments: ["<a xmlns='relative'/>", "<x:a/>", "<?xml version='1.1'?><a/>", "<?xml version='1.0'?><a>\n</a>\n"]
    )
    func wellFormedXML(text: String) throws {
        let document = try XMLDocumentResponseSerializer().serialize(dataResponse(text, type: "text/xml"))
        #expect(document?.rootElement() != nil)
    }

    @Test("entities that grow without end are refused")
    func entityExpansion() {
        var entities = "<!ENTITY e0 \"1234567890\">"
        for level in 1...9 {
            entities += "<!ENTITY e\(level) \"\(String(repeating: "&e\(level - 1);", count: 10))\">"
        }
        let text = "<!DOCTYPE a [\(entities)]><a>&e9;</a>"
        #expect(throws: ResponseSerializationError.self) {
            try XMLDocumentResponseSerializer().serialize(dataResponse(text, type: "text/xml"))
        }
    }

    @Test("a response cannot make the reader open a file")
    func externalEntities() throws {
        let folder = try TemporaryFolder()
        try Data("stolen".utf8).write(to: URL(fileURLWithPath: folder.path + "/secret"))
        let text = "<!DOCTYPE a [<!ENTITY e SYSTEM \"file://\(folder.path)/secret\">]><a>&e;</a>"
        var serializer = XMLDocumentResponseSerializer()
        serializer.options = .nodeLoadExternalEntitiesAlways
        let document = try? serializer.serialize(dataResponse(text, type: "text/xml"))
        #expect(document?.rootElement()?.stringValue?.contains("stolen") != true)
        #expect(document?.xmlString.contains("stolen") != true)
    }

    // MARK: Streams

    @Test("an InputStream is sent piece by piece, as often as the body is opened")
    func inputStream() async throws {
        let content = patternBytes(200_000)
        let source = BodySource.inputStream(length: content.count) { InputStream(data: Data(content)) }
        var form = try MultipartFormData(boundary: "B")
        try form.append(.source(source), name: "s")
        for _ in 0..<2 {
            let isWhole = try await RequestBody.source(source).collect() == content
            #expect(isWhole)
            let length = try await form.body.collect().count
            #expect(length == form.contentLength)
        }
    }

    @Test("a stream that cannot be made or read fails the request")
    func badStreams() async throws {
        await #expect(throws: SessionError.self) {
            try await RequestBody.source(.inputStream { nil }).collect()
        }
        await #expect(throws: SessionError.self) {
            try await RequestBody.source(.inputStream { InputStream(fileAtPath: "/nowhere/at/all") }).collect()
        }
    }
}
