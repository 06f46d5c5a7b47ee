// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCodable
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Response serializers")
struct ResponseSerializerTests {
    private func reason<Serializer: ResponseSerializer>(
        _ serializer: Serializer,
        _ response: DataResponse,
        to method: HTTPMethod = .get
    ) -> ResponseSerializationError.Reason? {
        do throws(ResponseSerializationError) {
            _ = try serializer.serialize(response, to: method)
            return nil
        } catch {
            #expect(error.response.data == response.data)
            #expect(error.response.response.status == response.response.status)
            return error.reason
        }
    }

    // MARK: Validation

    @Test("every status from 200 to 299 is acceptable, and no other")
    func statuses() {
        for status in 100..<600 {
            let found = reason(HTTPResponseSerializer(), dataResponse("x", status: status))
            if case .unacceptableStatusCode(let code)? = found {
                #expect(code == status)
                #expect(!(200..<300).contains(status))
            } else {
                #expect(found == nil)
                #expect((200..<300).contains(status))
            }
        }
    }

    @Test("acceptable statuses can be chosen, or all be")
    func chosenStatuses() {
        let chosen = HTTPResponseSerializer(validation: ResponseValidation(acceptableStatusCodes: [404]))
        #expect(reason(chosen, dataResponse(status: 404)) == nil)
        #expect(reason(chosen, dataResponse(status: 200)) != nil)
        let all = HTTPResponseSerializer(validation: ResponseValidation(acceptableStatusCodes: nil))
        #expect(reason(all, dataResponse(status: 500)) == nil)
    }

    @Test(
        "content types match exactly, or a pattern, without parameters and in any case",
        arguments: [
            ("image/jpeg", ["image/jpeg"], true), ("IMAGE/JPEG; q=1", ["image/jpeg"], true),
            ("image/jpeg", ["image/*"], true),
            ("image/jpeg", ["*/jpeg"], true), ("image/jpeg", ["*/*"], true),
            ("image/jpeg", ["image/gif", "image/png"], false),
            ("image/jpeg", ["text/*"], false), ("image/jpeg", ["*/xml"], false),
            ("application/json", ["application/*+json"], false),
            (nil, ["*/*"], true), (nil, ["image/*"], false), ("rubbish", ["*/*"], true),
            ("rubbish", ["image/*"], false),
            ("image/jpeg", [], false), ("text/html", ["text/html; charset=utf-8"], true),
        ] as [(String?, [String], Bool)]
    )
    func contentTypes(type: String?, acceptable: [String], isAcceptable: Bool) {
        let serializer = HTTPResponseSerializer(validation: ResponseValidation(acceptableContentTypes: acceptable))
        let found = reason(serializer, dataResponse("x", type: type))
        guard !isAcceptable else {
            #expect(found == nil)
            return
        }
        guard case .unacceptableContentType(let received, let wanted)? = found else {
            Issue.record("\(String(describing: found))")
            return
        }
        #expect(received == type)
        #expect(wanted == acceptable)
    }

    @Test("without a body the content type does not matter")
    func emptyBody() {
        let serializer = HTTPResponseSerializer(validation: ResponseValidation(acceptableContentTypes: ["image/png"]))
        #expect(reason(serializer, dataResponse(type: "text/html")) == nil)
        #expect(reason(serializer, dataResponse()) == nil)
    }

    @Test("the status is judged before the content type, and both before the body")
    func order() {
        guard
            case .unacceptableStatusCode? = reason(
                JSONResponseSerializer(),
                dataResponse("{", status: 500, type: "text/html")
            )
        else {
            Issue.record("not the status")
            return
        }
        guard case .unacceptableContentType? = reason(JSONResponseSerializer(), dataResponse("{", type: "text/html"))
        else {
            Issue.record("not the type")
            return
        }
    }

    @Test("the error says what was wrong in words")
    func words() throws {
        let error = #expect(throws: ResponseSerializationError.self) {
            try JSONResponseSerializer().serialize(dataResponse("<html>", type: "text/html"))
        }
        #expect(
            error?.description
                == "The content type text/html is none of application/json, text/json, text/javascript, application/*+json."
        )
    }

    // MARK: Bodies

    @Test("bytes come out as they are")
    func bytes() throws {
        let data = patternBytes(1000)
        #expect(try HTTPResponseSerializer().serialize(dataResponse(data)) == data)
        #expect(try HTTPResponseSerializer().serialize(dataResponse(status: 204)) == [])
    }

    @Test(
        "a text has the charset of the response, or else UTF-8",
        arguments: [
            ([0x61, 0xC3, 0xA4], "text/plain", "aä"), ([0x61, 0xE4], "text/plain; charset=ISO-8859-1", "aä"),
            ([0x80], "text/plain; charset=\"windows-1252\"", "€"), ([0, 0x61], "text/plain; charset=utf-16be", "a"),
            ([0x61], nil, "a"),
        ] as [([UInt8], String?, String)]
    )
    func text(bytes: [UInt8], type: String?, expected: String) throws {
        #expect(try StringResponseSerializer().serialize(dataResponse(bytes, type: type)) == expected)
    }

    @Test("a chosen charset comes before the response's, and a fallback after it")
    func chosenCharset() throws {
        var serializer = StringResponseSerializer(encoding: .isoLatin1)
        #expect(try serializer.serialize(dataResponse([0xC3, 0xA4], type: "text/plain; charset=utf-8")) == "Ã¤")
        serializer = StringResponseSerializer()
        serializer.fallbacks = [.isoLatin1]
        #expect(try serializer.serialize(dataResponse([0xE4])) == "ä")
        #expect(try serializer.serialize(dataResponse([0xC3, 0xA4], type: "text/plain; charset=utf-8")) == "ä")
    }

    @Test("of several fallbacks the first valid one counts, only without a charset")
    func fallbacks() throws {
        let serializer = StringResponseSerializer(fallbacks: [.utf8, .windows1252])
        #expect(try serializer.serialize(dataResponse([0xC3, 0xA4])) == "ä")
        #expect(try serializer.serialize(dataResponse([0x61, 0xE4, 0x80])) == "aä€")
        #expect(throws: ResponseSerializationError.self) {
            try serializer.serialize(dataResponse([0xE4], type: "text/plain; charset=utf-8"))
        }
        let error = #expect(throws: ResponseSerializationError.self) {
            try StringResponseSerializer(fallbacks: [.ascii, .utf8]).serialize(dataResponse([0xE4]))
        }
        guard case .stringDecodingFailed("us-ascii, utf-8")? = error?.reason else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test("bytes that do not fit a charset, and unknown charsets, are named errors")
    func badText() {
        for (response, name) in [
            (dataResponse([0xE4]), "utf-8"), (dataResponse([0xE4], type: "text/plain; charset=us-ascii"), "us-ascii"),
            (dataResponse("x", type: "text/plain; charset=klingon"), "klingon"),
        ] {
            guard case .stringDecodingFailed(let charset)? = reason(StringResponseSerializer(), response) else {
                Issue.record("\(name) was read")
                continue
            }
            #expect(charset == name)
        }
    }

    @Test("a response may be empty with 204, 205 and HEAD, and not otherwise")
    func emptiness() throws {
        let decoding = DecodableResponseSerializer(EmptyResponse.self)
        for status in [204, 205] {
            #expect(try StringResponseSerializer().serialize(dataResponse(status: status)) == "")
            #expect(try JSONResponseSerializer().serialize(dataResponse(status: status)) == .null)
            #expect(try decoding.serialize(dataResponse(status: status)) == EmptyResponse())
        }
        #expect(try JSONResponseSerializer().serialize(dataResponse(), to: .head) == .null)
        #expect(try StringResponseSerializer().serialize(dataResponse(), to: .head) == "")
        #expect(try decoding.serialize(dataResponse(), to: .head) == EmptyResponse())
        for found in [
            reason(StringResponseSerializer(), dataResponse()), reason(JSONResponseSerializer(), dataResponse()),
            reason(decoding, dataResponse()),
        ] {
            guard case .inputDataEmpty? = found else {
                Issue.record("\(String(describing: found))")
                continue
            }
        }
    }

    @Test("an empty set of statuses accepts none")
    func noStatus() throws {
        var serializer = StringResponseSerializer()
        serializer.validation.acceptableStatusCodes = []
        guard case .unacceptableStatusCode(200)? = reason(serializer, dataResponse("x")) else {
            return #expect(Bool(false), "accepted")
        }
    }

    @Test("a check of the program reads the body")
    func checkedBody() throws {
        struct Bad: Error {}
        let serializer = StringResponseSerializer(
            validation: ResponseValidation { response in
                if response.data != Array("good".utf8) { throw Bad() }
            }
        )
        #expect(try serializer.serialize(dataResponse("good")) == "good")
        guard case .custom(let error)? = reason(serializer, dataResponse("bad")), error is Bad else {
            return #expect(Bool(false), "accepted")
        }
    }

    @Test("the statuses of empty responses can be chosen; a single space is empty")
    func chosenEmptiness() throws {
        var serializer = JSONResponseSerializer()
        serializer.validation.emptyResponseCodes = [200]
        serializer.validation.emptyRequestMethods = []
        #expect(try serializer.serialize(dataResponse()) == .null)
        #expect(try serializer.serialize(dataResponse(" ", type: "application/json")) == .null)
        #expect(reason(serializer, dataResponse(status: 204)) != nil)
        #expect(reason(serializer, dataResponse(status: 201), to: .head) != nil)
    }

    // MARK: JSON

    @Test(
        "JSON is read when it is served as JSON",
        arguments: [
            "application/json", "text/json", "text/javascript; charset=utf-8", "application/vnd.api+json",
            "Application/Problem+JSON; charset=utf-8", nil,
        ]
    )
    func json(type: String?) throws {
        struct Value: Decodable, Equatable { var a: [Int] }
        let decodable = DecodableResponseSerializer(Value.self)
        #expect(try decodable.serialize(dataResponse("{\"a\":[1]}", type: type)) == Value(a: [1]))
        #expect(try JSONResponseSerializer().serialize(dataResponse("{\"a\":[1]}", type: type)) == ["a": [1]])
    }

    @Test(
        "JSON under another type is refused, and can be allowed",
        arguments: ["text/plain", "image/svg+json", "application/+json", "application/json5", "application/x+jsonp"]
    )
    func otherJSON(type: String) throws {
        var serializer = JSONResponseSerializer()
        #expect(reason(serializer, dataResponse("{}", type: type)) != nil)
        serializer.validation.acceptableContentTypes?.append(type)
        #expect(try serializer.serialize(dataResponse("{}", type: type)) == [:])
    }

    @Test(
        "the registered types of JSON alone are accepted, when that is wanted",
        arguments: ["application/a+json", nil, "nonsense"]
    )
    func strictJSON(type: String?) throws {
        let response = dataResponse("[1]", type: type)
        #expect(reason(JSONResponseSerializer(validation: .strictJSON), response) != nil)
        #expect(reason(DecodableResponseSerializer([Int].self, validation: .strictJSON), response) != nil)
        #expect((reason(JSONResponseSerializer(), response) == nil) == (type != "nonsense"))
        let known = dataResponse("[1]", type: "application/json")
        #expect(try JSONResponseSerializer(validation: .strictJSON).serialize(known) == [1])
    }

    @Test("JSON is read as its options say")
    func jsonOptions() throws {
        var serializer = JSONResponseSerializer()
        let response = dataResponse("{\"a\":null,\"b\":[null,1]}", type: "application/json")
        #expect(try serializer.serialize(response) == ["a": nil, "b": [nil, 1]])
        serializer.readingOptions.removesNulls = true
        #expect(try serializer.serialize(response) == ["b": [1]])
        serializer.readingOptions.allowsFragments = false
        #expect(reason(serializer, dataResponse("1", type: "application/json")) != nil)
    }

    @Test("invalid JSON is an error with its place", arguments: ["{", "{\"a\":1,\"a\":2}", "<html>", "\u{FFFE}"])
    func badJSON(text: String) {
        guard
            case .invalidJSON(let fault)? = reason(
                JSONResponseSerializer(),
                dataResponse(text, type: "application/json")
            )
        else {
            Issue.record("it was read")
            return
        }
        #expect(fault.offset <= text.utf8.count)
    }

    // MARK: Decodable

    private struct User: Decodable, Equatable {
        var name: String
        var age: Int
    }

    @Test("a type is decoded; an optional one is nil without a body")
    func decoding() throws {
        let response = dataResponse("[{\"name\":\"Ada\",\"age\":36}]", type: "application/json")
        #expect(try DecodableResponseSerializer([User].self).serialize(response) == [User(name: "Ada", age: 36)])
        #expect(try DecodableResponseSerializer(User?.self).serialize(dataResponse(status: 204)) == nil)
    }

    @Test("JSON of another form is an error with the decoder's own")
    func badDecoding() {
        let serializer = DecodableResponseSerializer(User.self)
        guard
            case .decodingFailed(let error)? = reason(
                serializer,
                dataResponse("{\"name\":1}", type: "application/json")
            )
        else {
            Issue.record("it was decoded")
            return
        }
        #expect(error is DecodingError)
        guard case .invalidJSON? = reason(serializer, dataResponse("{", type: "application/json")) else {
            Issue.record("it was read")
            return
        }
        guard case .inputDataEmpty? = reason(serializer, dataResponse(status: 204)) else {
            Issue.record("a type without a value for nothing was made of nothing")
            return
        }
    }

    private struct LineDecoder: DataDecoder {
        func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
            let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
            return try #require(lines as? Value)
        }
    }

    @Test("a decoder of one's own does the decoding")
    func ownDecoder() throws {
        let serializer = DecodableResponseSerializer(
            [String].self,
            validation: ResponseValidation(),
            decoder: LineDecoder()
        )
        #expect(try serializer.serialize(dataResponse("a\nb", type: "text/plain")) == ["a", "b"])
    }

    @Test("a closure or a known prefix changes bytes before they are read")
    func preprocessors() throws {
        let upper: @Sendable ([UInt8]) -> [UInt8] = { $0.map { $0 >= 97 && $0 <= 122 ? $0 - 32 : $0 } }
        let guarded = ")]}',\n[\"a\"]"
        let json = "application/json"
        #expect(try HTTPResponseSerializer().preprocess(upper).serialize(dataResponse("aB1")) == Array("AB1".utf8))
        #expect(try StringResponseSerializer().preprocess(upper).serialize(dataResponse("aB1")) == "AB1")
        #expect(try JSONResponseSerializer().preprocess(upper).serialize(dataResponse("[\"a\"]", type: json)) == ["A"])
        let list = DecodableResponseSerializer([String].self)
        #expect(try list.preprocess { $0 }.serialize(dataResponse("[\"a\"]", type: json)) == ["a"])
        let unguarded = list.removingPrefix(")]}',\n")
        #expect(try unguarded.serialize(dataResponse(guarded, type: json)) == ["a"])
        #expect(try unguarded.serialize(dataResponse("[\"b\"]", type: json)) == ["b"])
        #expect(throws: ResponseSerializationError.self) { try list.serialize(dataResponse(guarded, type: json)) }
        // Changes may be put one behind the other: the last is the first to read.
        #expect(try unguarded.preprocess(upper).serialize(dataResponse(guarded, type: json)) == ["A"])
    }

    @Test("an error of a change fails an accepted response with a body")
    func failingPreprocessor() throws {
        struct Mine: Error {}
        let calls = Monitor(0)
        let failing: @Sendable ([UInt8]) throws -> [UInt8] = { _ in
            calls.with { $0 += 1 }
            throw Mine()
        }
        func isMine(_ found: ResponseSerializationError.Reason?) -> Bool {
            if case .custom(let error)? = found { error is Mine } else { false }
        }
        #expect(isMine(reason(HTTPResponseSerializer().preprocess(failing), dataResponse("x"))))
        #expect(isMine(reason(StringResponseSerializer().preprocess(failing), dataResponse("x"))))
        #expect(isMine(reason(JSONResponseSerializer().preprocess(failing), dataResponse("1", type: "text/json"))))
        let number = DecodableResponseSerializer(Int.self).preprocess(failing)
        #expect(isMine(reason(number, dataResponse("1", type: "text/json"))))
        #expect(calls.with { $0 } == 4)
        for response in [dataResponse("x", status: 500), dataResponse(status: 500)] {
            guard case .unacceptableStatusCode(500)? = reason(HTTPResponseSerializer().preprocess(failing), response)
            else {
                Issue.record("the status is not judged first")
                continue
            }
        }
        #expect(try StringResponseSerializer().preprocess(failing).serialize(dataResponse(status: 204)) == "")
        #expect(calls.with { $0 } == 4)
    }

    @Test("a check sees the received bytes once; validation may follow a change")
    func checkedPreprocessor() throws {
        let seen = Monitor<[String]>([])
        var serializer = StringResponseSerializer().preprocess { [UInt8]("<".utf8) + $0 }
        serializer.validation.check = { response in
            seen.with { $0.append(String(decoding: response.data, as: UTF8.self)) }
        }
        serializer.validation.acceptableStatusCodes = [404]
        #expect(try serializer.serialize(dataResponse("x", status: 404)) == "<x")
        #expect(seen.with { $0 } == ["x"])
        #expect(throws: ResponseSerializationError.self) { try serializer.serialize(dataResponse("x")) }
    }

    // MARK: Compound

    private enum Either: Equatable, Sendable {
        case json(JSONValue)
        case text(String)
    }

    private var compound: CompoundResponseSerializer<Either> {
        let plain = StringResponseSerializer(validation: ResponseValidation(acceptableContentTypes: ["text/plain"]))
        return CompoundResponseSerializer([
            JSONResponseSerializer().map { Either.json($0) }, plain.map { Either.text($0) },
        ])
    }

    @Test("the first serializer that accepts the response makes the object")
    func compoundSuccess() throws {
        #expect(try compound.serialize(dataResponse("[1]", type: "application/json")) == .json([1]))
        #expect(try compound.serialize(dataResponse("[1]", type: "text/plain")) == .text("[1]"))
    }

    @Test("when none accepts it, the error has each one's reason")
    func compoundFailure() {
        guard case .allSerializersFailed(let errors)? = reason(compound, dataResponse("{", type: "application/json"))
        else {
            Issue.record("one took it")
            return
        }
        #expect(errors.count == 2)
        guard case .invalidJSON? = errors.first?.reason, case .unacceptableContentType? = errors.last?.reason else {
            Issue.record("\(errors)")
            return
        }
        guard case .allSerializersFailed(let none)? = reason(CompoundResponseSerializer<Int>([]), dataResponse()) else {
            Issue.record("nobody took it")
            return
        }
        #expect(none.isEmpty)
    }

    @Test("an error of a mapping is the reason")
    func mapping() {
        struct Refusal: Error {}
        let serializer = HTTPResponseSerializer().map { (_: [UInt8]) -> Int in throw Refusal() }
        guard case .custom(let error)? = reason(serializer, dataResponse()) else {
            Issue.record("it was mapped")
            return
        }
        #expect(error is Refusal)
    }
}
