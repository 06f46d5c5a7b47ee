// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import HTTPCaching

/// Short notations for responses and requests in tests. The clock is at the date of most responses.
enum CachingStage {
    static let now = 784_111_777
    static let date = "Sun, 06 Nov 1994 08:49:37 GMT"
    static let anHourBefore = "Sun, 06 Nov 1994 07:49:37 GMT"
    static let shared = CacheOptions()
    static let ofOne = CacheOptions(isShared: false)
    static let digest = PolicyDigest([1, 2, 3])

    typealias Pairs = [(String, String)]

    static func fields(_ pairs: Pairs) throws -> HeaderFields {
        var fields = HeaderFields()
        for (name, value) in pairs { try fields.append(name: name, value: value) }
        return fields
    }

    static func request(
        _ pairs: Pairs = [],
        method: HTTPMethod = .get,
        policy: RequestPolicy = .useProtocolCachePolicy
    ) throws -> CacheRequest {
        CacheRequest(method: method, fields: try fields(pairs), policy: policy)
    }

    /// A response to a GET, received at `now`, with a Date unless it has one.
    static func stored(
        _ pairs: Pairs,
        status: Int = 200,
        to request: Pairs = [],
        receivedAt: Int = now,
        siblings: [StoredResponse] = [],
        options: CacheOptions = shared
    ) throws -> StoredResponse {
        let hasDate = pairs.contains { $0.0 == "Date" }
        return StoredResponse(
            status: status,
            response: try fields(hasDate ? pairs : pairs + [("Date", date)]),
            to: try Self.request(request),
            requestTime: receivedAt,
            responseTime: receivedAt,
            digest: digest,
            siblings: siblings,
            options
        )
    }

    static func decide(
        _ request: CacheRequest,
        _ stored: StoredResponse?,
        after seconds: Int = 0,
        hasVariants: Bool? = nil,
        options: CacheOptions = shared
    ) -> CacheUse {
        ReuseDecision.decide(
            request,
            stored: stored,
            hasVariants: hasVariants ?? (stored != nil),
            now: now + seconds,
            options
        )
    }

    static func key(_ url: String) throws -> CacheKey { try #require(CacheKey(url: url)) }
}

extension CacheUse {
    /// The response, if the use is one.
    var reuse: Reuse? {
        guard case .reuse(let reuse) = self else { return nil }
        return reuse
    }

    var isFreshResponse: Bool { reuse.map { $0.freshness.isFresh && !$0.revalidates } ?? false }
    var isStaleResponse: Bool { reuse.map { !$0.freshness.isFresh } ?? false }
}

extension HeaderFields {
    init(_ name: String, _ value: String) throws {
        self.init()
        try append(name: name, value: value)
    }
}

/// The steps as completions, which are called once, perhaps before the call returns.
extension CacheTransaction {
    func begin(_ completion: @escaping (Step) -> Void) { pass(begin(), to: completion) }

    func didReceiveHead(
        status: Int,
        _ fields: HeaderFields,
        length: Int?,
        mayStore: Bool,
        _ completion: @escaping (Step) -> Void
    ) {
        pass(didReceiveHead(status: status, fields, length: length, mayStore: mayStore), to: completion)
    }

    /// - Parameter completion: gets nil when the failure itself is passed on.
    func originDidFail(_ failure: OriginFailure, _ completion: @escaping (Step?) -> Void) {
        pass(originDidFail(failure)) { step in
            if case .pass = step { completion(nil) } else { completion(step) }
        }
    }

    private func pass(_ step: Step?, to completion: @escaping (Step) -> Void) {
        if let step { completion(step) } else { whenDecided(completion) }
    }
}
