// SPDX-License-Identifier: Apache-2.0
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
        var requestFields = HeaderFields()
        if let request { try requestFields.append(name: request.0, value: request.1) }
        var responseFields = HeaderFields()
        if let cacheControl { try responseFields.append(name: "Cache-Control", value: cacheControl) }
        if let response { try responseFields.append(name: response.0, value: response.1) }
        return Storability.evaluate(
            method: method,
            request: requestFields,
            status: status,
            response: responseFields,
            isShared: isShared
        )
    }

    @Test("3: a response with a lifetime is stored for GET, and for no other method")
    func methods() throws {
        #expect(try judge("max-age=60") == .storable)
        for method in [HTTPMethod.post, .head, .put, .options, .other([65])] {
            #expect(try judge("max-age=60", method: method) == .notStorable(.method))
        }
    }

    @Test("3 and 3.4: interim and partial responses and 304 are not stored", arguments: [100, 103, 206, 304])
    func statuses(status: Int) throws {
        #expect(try judge("max-age=60", status: status) == .notStorable(.status))
    }

    @Test("6585: a response about one request or client is not stored, whatever its lifetime")
    func aboutOneRequest() throws {
        for status in [401, 407, 408, 411, 412, 413, 416, 417, 421, 425, 428, 429, 431, 511] {
            #expect(try judge("public, max-age=60", status: status) == .notStorable(.status))
            #expect(try judge("private, max-age=60", status: status, isShared: false) == .notStorable(.status))
        }
    }

    @Test("4.1: a Vary that names more fields than any request has counts as everything")
    func manyNames() throws {
        let names = (0..<64).map { "x\($0)" }
        let list = names.joined(separator: ",")
        #expect(try judge("max-age=60", response: ("Vary", list + "," + list)) == .storable)
        #expect(try judge("max-age=60", response: ("Vary", list + ",y")) == .notStorable(.variesOnEverything))
    }

    @Test("3: without a lifetime only statuses that imply one are stored")
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

    @Test("3.5: a shared cache stores an authenticated response only if the origin allows it")
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

    @Test("5.2.1.5: no-store in the request keeps the response out")
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

    @Test("5.2.2.7: private keeps a response out of a shared cache")
    func privateResponses() throws {
        #expect(try judge("private, max-age=60") == .notStorable(.isPrivate))
        #expect(try judge("private, max-age=60", isShared: false) == .storable)
    }

    @Test("3: a Cache-Control that cannot be read forbids storing")
    func malformed() throws {
        #expect(try judge("max-age=60, private=\"x, no-store") == .notStorable(.malformedCacheControl))
        #expect(try judge("max-age=60", request: ("Cache-Control", "a b")) == .notStorable(.malformedCacheControl))
    }

    @Test("3.5: credentials that this program adds count like Authorization")
    func injectedCredentials() throws {
        let request = CacheRequest(method: .get, fields: HeaderFields(), hasInjectedCredentials: true)
        let response = try HeaderFields("Cache-Control", "max-age=60")
        func judge(_ options: CacheOptions) -> Storability {
            Storability.evaluate(request, status: 200, response: response, options)
        }
        #expect(judge(CacheOptions()) == .notStorable(.authorization))
        #expect(judge(CacheOptions(isShared: false)) == .storable)
    }

    @Test("3: the response to a request with content is not stored")
    func requestBody() throws {
        let request = CacheRequest(method: .get, fields: HeaderFields(), hasBody: true)
        let response = try HeaderFields("Cache-Control", "max-age=60")
        #expect(
            Storability.evaluate(request, status: 200, response: response, CacheOptions()) == .notStorable(.requestBody)
        )
    }

    @Test("5.2.2.7: private with names keeps those fields out, and the rest is stored")
    func privateFields() throws {
        let fields = [
            ("Cache-Control", "private=\"X-User, set-cookie\", max-age=60"), ("X-User", "1"), ("X-Other", "2"),
        ]
        let cookie = ("Set-Cookie", "a=b")
        #expect(try judge("private=\"Set-Cookie\", max-age=60", response: cookie) == .storable)
        let stored = try CachingStage.stored(fields + [cookie])
        #expect(stored.fields.value(for: "x-user") == nil && stored.fields.value(for: "set-cookie") == nil)
        #expect(stored.fields.value(for: "x-other") == "2")
        let ofOne = try CachingStage.stored(fields, options: CachingStage.ofOne)
        #expect(ofOne.fields.value(for: "x-user") == "1")
    }

    @Test("7.3: Set-Cookie keeps a response out of a shared cache unless it allows sharing")
    func setCookie() throws {
        let cookie = ("Set-Cookie", "a=b")
        #expect(try judge("max-age=60", response: cookie) == .notStorable(.setCookie))
        #expect(try judge("max-age=60", response: cookie, isShared: false) == .storable)
        for directive in ["public", "s-maxage=60"] { #expect(try judge(directive, response: cookie) == .storable) }
    }

    @Test("two entity tags contradict each other: not stored")
    func contradiction() throws {
        let response = try CachingStage.fields([("ETag", "\"a\""), ("ETag", "\"b\""), ("Cache-Control", "max-age=9")])
        let request = try CachingStage.request()
        #expect(
            Storability.evaluate(request, status: 200, response: response, CacheOptions())
                == .notStorable(.contradiction)
        )
    }

    @Test("3.1: all fields are stored but those of a connection and of a proxy")
    func storedFields() throws {
        let stored = try CachingStage.stored([
            ("Connection", "close, X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "1"), ("Proxy-Authenticate", "Basic"),
            ("Proxy-Authentication-Info", "x"), ("Proxy-Authorization", "x"), ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"), ("X-Unknown", "2"), ("Content-Type", "a/b"), ("Age", "5"), ("Content-Length", "3"),
            ("Trailer", "X-Sum"),
        ])
        #expect(stored.fields.list.map(\.name) == ["X-Unknown", "Content-Type", "Date"])
        #expect(stored.initialAge == 5)
    }

    @Test("5.2.2.4: no-cache that names fields keeps those fields from being reused")
    func noCacheFields() throws {
        let stored = try CachingStage.stored([("Cache-Control", "no-cache=\"X-Once\", max-age=9"), ("X-Once", "1")])
        #expect(stored.fields.value(for: "x-once") == nil)
        #expect(CachingStage.decide(try CachingStage.request(), stored).isFreshResponse)
    }
}
