// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Retry policies")
struct RetryPolicyTests {
    private func failed(_ status: Int, retryAfter: String? = nil) -> RequestFailure {
        let response = dataResponse(
            "",
            status: status,
            fields: retryAfter.map { [("Retry-After", $0)] } ?? []
        )
        return .serialization(ResponseSerializationError(.unacceptableStatusCode(status), response: response))
    }

    private func delay(
        _ failure: RequestFailure,
        by policy: RetryPolicy = RetryPolicy(),
        before count: Int = 0,
        method: HTTPMethod = .get,
        chance: Double = 0
    ) -> Duration? {
        policy.delay(before: count, method: method, failure: failure, now: 784_111_777, chance: chance)
    }

    @Test("delays grow by the base, up to the limit")
    func backoff() {
        let policy = RetryPolicy(retryLimit: 20, maximumDelay: .seconds(10))
        let delays = (0..<7).map { delay(failed(503), by: policy, before: $0) }
        #expect(delays == [0.5, 1, 2, 4, 8, 10, 10].map { .seconds($0) })
        let steep = RetryPolicy(
            retryLimit: .max,
            exponentialBackoffBase: 10,
            exponentialBackoffScale: .seconds(1),
            maximumDelay: .seconds(3600)
        )
        #expect(delay(failed(503), by: steep, before: 1_000_000) == .seconds(3600))
        // A base below 1 would be no back-off.
        #expect(delay(failed(503), by: RetryPolicy(exponentialBackoffBase: 0), before: 1) == .milliseconds(500))
    }

    @Test("chance takes off the share of the delay that jitter says")
    func jitter() {
        let failure = failed(503)
        #expect(delay(failure, chance: 1) == .milliseconds(250))
        #expect(delay(failure, chance: 0.5) == .milliseconds(375))
        #expect(delay(failure, by: RetryPolicy(jitter: 0), chance: 1) == .milliseconds(500))
        #expect(delay(failure, by: RetryPolicy(jitter: 1), chance: 1) == .zero)
        #expect(delay(failure, by: RetryPolicy(jitter: 7), chance: 1) == .zero)
    }

    @Test("there are as many retries as the limit says")
    func limit() {
        #expect(delay(failed(500), before: 1) != nil)
        #expect(delay(failed(500), before: 2) == nil)
        #expect(delay(failed(500), by: RetryPolicy(retryLimit: 0)) == nil)
    }

    @Test("only methods that may be repeated are")
    func methods() throws {
        for method in [HTTPMethod.get, .head, .put, .delete, .options] {
            #expect(delay(failed(503), method: method) != nil)
        }
        for method in [HTTPMethod.post, .patch, try #require(HTTPMethod("PURGE"))] {
            #expect(delay(failed(503), method: method) == nil)
        }
        #expect(delay(failed(503), by: RetryPolicy(retryableHTTPMethods: [.post]), method: .post) != nil)
    }

    @Test("statuses that pass by themselves are retried, others are not")
    func statuses() {
        for status in [408, 500, 502, 503, 504] { #expect(delay(failed(status)) != nil) }
        for status in [400, 401, 403, 404, 409, 429, 501, 505] { #expect(delay(failed(status)) == nil) }
    }

    @Test("errors of the network are retried, those of trust never", arguments: SessionError.Code.allCases)
    func errors(code: SessionError.Code) {
        let failure = RequestFailure.session(SessionError(code, ""))
        let passing: Set<SessionError.Code> = [
            .dnsFailed, .dnsTimeout, .connectFailed, .connectTimeout, .proxyRefused, .responseTimeout, .stalled,
            .responseTruncated, .limitReached,
        ]
        #expect((delay(failure) != nil) == passing.contains(code))
        let lost = RetryPolicy.connectionLost()
        #expect((delay(failure, by: lost) != nil) == (code == .responseTruncated))
        let decided: Set<SessionError.Code> = [
            .pinMismatch, .pinSetExpired, .pinForbidden, .certificateUntrusted, .certificateExpired,
            .certificateHostMismatch, .certificateRevoked, .stapleMissing, .proxyUntrusted, .addressDenied,
            .credentialWithheld, .redirectDenied, .sessionInvalidated, .cancelled,
        ]
        // Not even a policy that names them.
        let all = RetryPolicy(retryableErrorCodes: Set(SessionError.Code.allCases))
        #expect((delay(failure, by: all) == nil) == decided.contains(code))
        #expect(failure.mayBeRetried != decided.contains(code))
    }

    @Test("Retry-After is the least delay; one that is too long means no retry")
    func retryAfter() {
        #expect(delay(failed(503, retryAfter: "7")) == .seconds(7))
        #expect(delay(failed(503, retryAfter: "0")) == .milliseconds(500))
        // 784111777 is Sun, 06 Nov 1994 08:49:37 GMT (RFC 9110, section 5.6.7).
        #expect(delay(failed(503, retryAfter: "Sun, 06 Nov 1994 08:49:40 GMT")) == .seconds(3))
        #expect(delay(failed(503, retryAfter: "Sun, 06 Nov 1994 08:00:00 GMT")) == .milliseconds(500))
        #expect(delay(failed(503, retryAfter: "soon")) == .milliseconds(500))
        #expect(delay(failed(503, retryAfter: "61")) == nil)
        #expect(delay(failed(503, retryAfter: String(repeating: "9", count: 30))) == nil)
    }

    @Test("a request that an adapter or retrier has ended is not retried")
    func ended() {
        struct Mine: Error {}
        #expect(delay(.adaptation(Mine())) == nil)
        #expect(delay(.retry(Mine(), original: failed(503))) == nil)
    }
}
