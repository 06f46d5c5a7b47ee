// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Request serializers")
struct RequestSerializerTests {
    private static let url = "https://api.example.com/items"

    private static func query(_ request: HTTPSessionRequest) -> String {
        String(request.url.dropFirst(url.count))
    }

    // MARK: Where parameters go

    @Test("GET, HEAD and DELETE have their parameters in the URL, and no body", arguments: ["GET", "HEAD", "DELETE"])
    func inURL(method: String) throws {
        let method = try #require(HTTPMethod(method))
        for serializer in [HTTPRequestSerializer() as any RequestSerializer, JSONRequestSerializer()] {
            let request = try serializer.request(method, Self.url, parameters: ["a": "b c", "d": 1])
            #expect(Self.query(request) == "?a=b%20c&d=1")
            #expect(request.headers.value(for: "Content-Type") == nil)
            guard case .none = request.body else {
                Issue.record("there is a body")
                return
            }
        }
    }

    @Test("POST, PUT and PATCH send parameters as a form", arguments: ["POST", "PUT", "PATCH", "OPTIONS", "PURGE"])
    func inBody(method: String) throws {
        let method = try #require(HTTPMethod(method))
        let request = try HTTPRequestSerializer().request(method, Self.url, parameters: ["a": "b c", "d": 1])
        #expect(request.url == Self.url)
        #expect(request.body.text == "a=b%20c&d=1")
        #expect(request.headers.value(for: "Content-Type") == "application/x-www-form-urlencoded; charset=utf-8")
    }

    @Test("the methods with parameters in the URL can be chosen")
    func chosenMethods() throws {
        var serializer = HTTPRequestSerializer()
        serializer.settings.methodsEncodingParametersInURI = [.post]
        #expect(Self.query(try serializer.request(.post, Self.url, parameters: ["a": 1])) == "?a=1")
        #expect(try serializer.request(.delete, Self.url, parameters: ["a": 1]).body.text == "a=1")
    }

    @Test(
        "a query is appended to the one that is there, before a fragment",
        arguments: [
            ("https://a.example/x", "https://a.example/x?p=1"),
            ("https://a.example/x?q=2", "https://a.example/x?q=2&p=1"),
            ("https://a.example/x?", "https://a.example/x?p=1"),
            ("https://a.example/x?q=2&", "https://a.example/x?q=2&p=1"),
            ("https://a.example/x#top?", "https://a.example/x?p=1#top?"),
            ("https://a.example/x?q#top", "https://a.example/x?q&p=1#top"),
            ("https://a.example", "https://a.example?p=1"),
            ("https://a.example/x?q%5B%5D=2&q%5B%5D=3", "https://a.example/x?q%5B%5D=2&q%5B%5D=3&p=1"),
            ("https://a.example/x?q%5Ba%5D=2", "https://a.example/x?q%5Ba%5D=2&p=1"),
        ]
    )
    func appending(url: String, expected: String) throws {
        #expect(try HTTPRequestSerializer().request(.get, url, parameters: ["p": 1]).url == expected)
        #expect(try HTTPRequestSerializer().request(.get, url, parameters: [:]).url == url)
        #expect(try HTTPRequestSerializer().request(.get, url).url == url)
    }

    @Test("empty parameters of a POST are an empty form; absent ones no body")
    func emptyParameters() throws {
        let empty = try HTTPRequestSerializer().request(.post, Self.url, parameters: [:])
        #expect(empty.body.text == "")
        #expect(empty.headers.value(for: "Content-Type") != nil)
        let none = try HTTPRequestSerializer().request(.post, Self.url)
        #expect(none.body.text == "")
        #expect(none.headers.value(for: "Content-Type") == nil)
    }

    @Test("a Content-Type of the request's own stays")
    func ownContentType() throws {
        var request = HTTPSessionRequest(url: Self.url, method: .post)
        request.headers.append(name: "content-type", value: "application/x-own")
        for serializer in [HTTPRequestSerializer() as any RequestSerializer, JSONRequestSerializer()] {
            let serialized = try serializer.serialize(request, parameters: ["a": 1])
            #expect(serialized.headers.values(for: "Content-Type") == ["application/x-own"])
        }
    }

    @Test("parameters that are no dictionary are no form")
    func noForm() {
        for parameters in [[1, 2], "text", 3, nil, .set([1])] as [ParameterValue] {
            #expect(throws: SessionError.self) {
                try HTTPRequestSerializer().request(.post, Self.url, parameters: parameters)
            }
        }
    }

    @Test("the request that came in keeps its own fields, body source and limits")
    func ownParts() throws {
        var serializer = HTTPRequestSerializer()
        serializer.settings.timeouts = TaskTimeouts(total: .seconds(9))
        try serializer.setValue("serializer", forHTTPHeaderField: "X-Both")
        var request = HTTPSessionRequest(url: Self.url, method: .put, body: .bytes([1]))
        request.headers.append(name: "x-both", value: "request")
        let serialized = try serializer.serialize(request, parameters: nil)
        #expect(serialized.headers.values(for: "X-Both") == ["request"])
        #expect(serialized.body.text == "\u{1}")
        #expect(serialized.timeouts == TaskTimeouts(total: .seconds(9)))
        request.timeouts = TaskTimeouts(total: .seconds(1))
        #expect(try serializer.serialize(request, parameters: nil).timeouts == request.timeouts)
    }

    // MARK: One's own query serialization

    @Test("a query serialization of one's own makes the URL and the form")
    func ownSerialization() throws {
        var serializer = HTTPRequestSerializer()
        serializer.settings.querySerialization = { request, parameters in "\(request.method)=\(parameters.text ?? "-")"
        }
        #expect(Self.query(try serializer.request(.get, Self.url, parameters: "x")) == "?GET=x")
        #expect(try serializer.request(.post, Self.url, parameters: [1]).body.text == "POST=-")
    }

    @Test("an error of a query serialization fails the request")
    func failingSerialization() throws {
        struct Refusal: Error {}
        var serializer = HTTPRequestSerializer()
        serializer.settings.querySerialization = { _, _ in throw Refusal() }
        let error = #expect(throws: SessionError.self) {
            try serializer.request(.get, Self.url, parameters: ["a": 1])
        }
        #expect(error?.code == .requestInvalid)
        #expect(error?.details.contains("Refusal") == true)
    }

    @Test("a form in another charset says so")
    func formCharset() throws {
        var serializer = HTTPRequestSerializer()
        serializer.settings.stringEncoding = .isoLatin1
        let request = try serializer.request(.post, Self.url, parameters: ["ü": 1])
        #expect(request.body.text == "%FC=1")
        #expect(request.headers.value(for: "Content-Type")?.hasSuffix("charset=iso-8859-1") == true)
        serializer.settings.stringEncoding = .utf16
        #expect(throws: SessionError.self) { try serializer.request(.post, Self.url, parameters: ["a": 1]) }
    }

    // MARK: Fields

    @Test("fields are set, read whatever their case, replaced and taken out")
    func fields() throws {
        var serializer = HTTPRequestSerializer()
        try serializer.setValue("1", forHTTPHeaderField: "X-One")
        try serializer.setValue("2", forHTTPHeaderField: "x-one")
        #expect(serializer.value(forHTTPHeaderField: "X-ONE") == "2")
        #expect(try serializer.request(.get, Self.url).headers.values(for: "X-One") == ["2"])
        try serializer.setValue(nil, forHTTPHeaderField: "X-One")
        #expect(serializer.value(forHTTPHeaderField: "X-One") == nil)
        #expect(try serializer.request(.get, Self.url).headers.value(for: "X-One") == nil)
    }

    @Test(
        "a field that would end the line is refused, and the one before stays",
        arguments: ["a\r\nX: b", "a\0", "\n"]
    )
    func fieldInjection(value: String) throws {
        var serializer = HTTPRequestSerializer()
        try serializer.setValue("good", forHTTPHeaderField: "X-One")
        #expect(throws: SessionError.self) { try serializer.setValue(value, forHTTPHeaderField: "X-One") }
        #expect(throws: SessionError.self) { try serializer.setValue("v", forHTTPHeaderField: "X One") }
        #expect(serializer.value(forHTTPHeaderField: "X-One") == "good")
    }

    @Test("Basic credentials are base64 of UTF-8, replaced by a bearer token, and cleared")
    func authorization() throws {
        var serializer = HTTPRequestSerializer()
        try serializer.setAuthorizationHeaderField(username: "Aladdin", password: "open sesame")
        #expect(serializer.value(forHTTPHeaderField: "Authorization") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
        try serializer.setAuthorizationHeaderField(username: "test", password: "123£")
        #expect(serializer.value(forHTTPHeaderField: "Authorization") == "Basic dGVzdDoxMjPCow==")
        try serializer.setAuthorizationHeaderField(bearerToken: "mF_9.B5f-4.1JqM=")
        #expect(serializer.value(forHTTPHeaderField: "Authorization") == "Bearer mF_9.B5f-4.1JqM=")
        serializer.clearAuthorizationHeader()
        #expect(serializer.value(forHTTPHeaderField: "Authorization") == nil)
    }

    @Test("credentials that would be read as others are refused")
    func badCredentials() throws {
        var serializer = HTTPRequestSerializer()
        #expect(throws: SessionError.self) {
            try serializer.setAuthorizationHeaderField(username: "a:b", password: "c")
        }
        #expect(throws: SessionError.self) { try serializer.setAuthorizationHeaderField(username: "a", password: "\n") }
        for token in ["", "a b", "a\r\nX: y", "a,b"] {
            #expect(throws: SessionError.self) { try serializer.setAuthorizationHeaderField(bearerToken: token) }
        }
        #expect(serializer.value(forHTTPHeaderField: "Authorization") == nil)
    }

    // MARK: Default fields

    @Test(
        "Accept-Language is the environment's languages, at most six, from 1 down to 0.5",
        arguments: [
            (["LANG": "de_DE.UTF-8"], "de-DE;q=1"),
            (["LANG": "en_US", "LC_ALL": "fr_FR@euro"], "fr-FR;q=1"),
            (["LANG": "C.UTF-8"], nil), (["LANG": "POSIX"], nil), ([:], nil),
            (["LANG": "C", "LANGUAGE": "de:en"], nil),
            (["LANG": "de_DE", "LANGUAGE": "de_AT:de:en:de"], "de-AT;q=1, de;q=0.9, en;q=0.8"),
            (
                ["LANG": "a_b", "LC_MESSAGES": "en", "LANGUAGE": "aa:bb:cc:dd:ee:ff:gg"],
                "aa;q=1, bb;q=0.9, cc;q=0.8, dd;q=0.7, ee;q=0.6, ff;q=0.5"
            ),
            (["LANG": "en\r\nX: y"], nil), (["LANG": "en_US", "LC_ALL": ""], "en-US;q=1"),
        ] as [([String: String], String?)]
    )
    func acceptLanguage(environment: [String: String], expected: String?) {
        #expect(DefaultFields.acceptLanguage { environment[$0] } == expected)
    }

    @Test("User-Agent names the program by its file's name, made a token, and this library")
    func userAgent() throws {
        #expect(DefaultFields.userAgent(program: "/usr/bin/tool") == "tool (Linux) SessionCore/0.1.0")
        #expect(DefaultFields.userAgent(program: "my töol/") == "my-t--ol (Linux) SessionCore/0.1.0")
        #expect(DefaultFields.userAgent(program: "") == "program (Linux) SessionCore/0.1.0")
        let sent = try HTTPRequestSerializer().request(.get, Self.url).headers["User-Agent"]
        #expect(sent?.hasSuffix("(Linux) SessionCore/0.1.0") == true)
    }

    // MARK: JSON

    @Test("JSON is the body, with its type, in the order given")
    func json() throws {
        let request = try JSONRequestSerializer()
            .request(.post, Self.url, parameters: ["b": [1, nil, true], "a": ["c": "d/e"]])
        #expect(request.body.text == #"{"b":[1,null,true],"a":{"c":"d\/e"}}"#)
        #expect(request.headers.value(for: "Content-Type") == "application/json")
    }

    @Test("JSON may be anything at the top, and sets become sorted arrays")
    func jsonTopLevel() throws {
        let serializer = JSONRequestSerializer()
        #expect(try serializer.request(.put, Self.url, parameters: [1, "a"]).body.text == #"[1,"a"]"#)
        #expect(try serializer.request(.put, Self.url, parameters: .set([2, 1])).body.text == "[1,2]")
        #expect(try serializer.request(.put, Self.url, parameters: .null).body.text == "null")
        #expect(try serializer.request(.put, Self.url).body.text == "")
        #expect(try serializer.request(.options, Self.url).body.text == nil)
    }

    @Test("numbers that JSON has no word for are refused", arguments: [Double.nan, .infinity, -.infinity])
    func jsonNumbers(number: Double) {
        let error = #expect(throws: SessionError.self) {
            try JSONRequestSerializer().request(.post, Self.url, parameters: ["a": [.double(number)]])
        }
        #expect(error?.code == .requestInvalid)
    }

    @Test("a JSON value is sent as it is spelt, with whatever method")
    func jsonValue() throws {
        let value = try JSONValue(parsing: Array("{\"n\": 1.50, \"big\": 123456789012345678901234567890}".utf8))
        let request = try JSONRequestSerializer(writingOptions: .sortedKeys).request(.delete, Self.url, json: value)
        #expect(request.body.text == #"{"big":123456789012345678901234567890,"n":1.50}"#)
        #expect(request.url == Self.url)
    }
}
