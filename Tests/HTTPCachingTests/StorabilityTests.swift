import HTTPCaching
import HTTPCore
import Testing

@Suite("RFC 9111 section 3: what may be stored")
struct StorabilityTests {
    private func judge(
        _ cacheControl: String?,
        method: HTTPMethod = .get,
        request: (String, String)? = nil,
        status: Int = 200,
        response: (String, String)? = nil,
        isShared: Bool = true
    ) throws -> Storability {
        var requestFields = HTTPFields()
        if let request { try requestFields.append(name: request.0, value: request.1) }
        var responseFields = HTTPFields()
        if let cacheControl { try responseFields.append(name: "Cache-Control", value: cacheControl) }
        if let response { try responseFields.append(name: response.0, value: response.1) }
        return Storability.judge(
            method: method,
            request: requestFields,
            status: status,
            response: responseFields,
            isShared: isShared
        )
    }

    @Test("3: an answer to GET with a lifetime is stored, to another method not")
    func methods() throws {
        #expect(try judge("max-age=60") == .storable)
        for method in [HTTPMethod.post, .head, .put, .options, .other([65])] {
            #expect(try judge("max-age=60", method: method) == .notStorable(.method))
        }
    }

    @Test("3: interim and partial responses and 304 are not stored", arguments: [100, 103, 206, 304])
    func statuses(status: Int) throws {
        #expect(try judge("max-age=60", status: status) == .notStorable(.status))
    }

    @Test("3: without a lifetime only statuses that stand for one are stored")
    func lifetimes() throws {
        for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
            #expect(try judge(nil, status: status) == .storable)
        }
        for status in [302, 307, 400, 403, 500, 503] {
            #expect(try judge(nil, status: status) == .notStorable(.noLifetime))
            #expect(try judge("max-age=1", status: status) == .storable)
            #expect(try judge("public", status: status) == .storable)
            #expect(try judge(nil, status: status, response: ("Expires", "0")) == .storable)
            #expect(try judge("s-maxage=1", status: status) == .storable)
            #expect(try judge("s-maxage=1", status: status, isShared: false) == .notStorable(.noLifetime))
            #expect(try judge("private", status: status, isShared: false) == .storable)
        }
    }

    @Test("3.5: an authenticated answer is stored in a shared cache only where the origin allows it")
    func authorization() throws {
        let credentials = ("Authorization", "Basic x")
        #expect(try judge("max-age=60", request: credentials) == .notStorable(.authorization))
        #expect(try judge("max-age=60", request: credentials, isShared: false) == .storable)
        for directive in ["public", "must-revalidate", "s-maxage=60"] {
            #expect(try judge("max-age=60, \(directive)", request: credentials) == .storable)
        }
    }

    @Test("4.1: a response that varies on everything is not stored")
    func vary() throws {
        #expect(try judge("max-age=60", response: ("Vary", "Accept, *")) == .notStorable(.variesOnEverything))
        #expect(try judge("max-age=60", response: ("Vary", "Accept")) == .storable)
    }

    @Test("5.2.1.5: no-store in the request keeps the answer out")
    func requestNoStore() throws {
        #expect(try judge("max-age=60", request: ("Cache-Control", "no-store")) == .notStorable(.requestNoStore))
    }

    @Test("5.2.2.3: must-understand overrides no-store where the status is understood, and else forbids")
    func mustUnderstand() throws {
        #expect(try judge("max-age=60, must-understand, no-store") == .storable)
        #expect(try judge("max-age=60, must-understand", status: 299) == .notStorable(.statusNotUnderstood))
        #expect(try judge("max-age=60", status: 299) == .storable)
    }

    @Test("5.2.2.5: no-store in the response keeps it out")
    func responseNoStore() throws {
        #expect(try judge("no-store, max-age=60") == .notStorable(.responseNoStore))
    }

    @Test("5.2.2.7: private keeps a response out of a shared cache, named fields too")
    func privateResponses() throws {
        #expect(try judge("private, max-age=60") == .notStorable(.isPrivate))
        #expect(try judge("private=\"Set-Cookie\", max-age=60") == .notStorable(.isPrivate))
        #expect(try judge("private, max-age=60", isShared: false) == .storable)
    }

    @Test("a Cache-Control that cannot be read forbids storing")
    func malformed() throws {
        #expect(try judge("max-age=60, private=\"x, no-store") == .notStorable(.malformedCacheControl))
        #expect(try judge("max-age=60", request: ("Cache-Control", "a b")) == .notStorable(.malformedCacheControl))
    }
}
