// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The latest verdicts about the requests to one origin: programs send the same requests again and again, and a list of a thousand
/// rules is not gone through for each. Small, because clients choose the paths.
struct KnownVerdicts {
    private struct Known {
        var method: HTTPMethod
        var isUpgrade: Bool
        var target: [UInt8]
        var user: [UInt8]?
        var verdict: RequestVerdict
    }

    private var places: [Known?] = Array(repeating: nil, count: count)

    private static let count = 16
    private static let longestTarget = 256
    /// Shorter lists are gone through.
    static let worthwhile = 8

    /// The place of a request whose fields replace nothing; nil for one that is not kept.
    func place(
        of method: HTTPMethod,
        _ isUpgrade: Bool,
        _ target: borrowing Span<UInt8>,
        _ user: [UInt8]?
    ) -> Int? {
        guard target.count <= Self.longestTarget else { return nil }
        return Int(truncatingIfNeeded: XXH64.hash(target) % UInt64(Self.count))
    }

    func verdict(
        at place: Int,
        _ method: HTTPMethod,
        _ isUpgrade: Bool,
        _ target: borrowing Span<UInt8>,
        _ user: [UInt8]?
    ) -> RequestVerdict? {
        guard let known = places[place], known.isUpgrade == isUpgrade, target.equals(known.target.span),
            known.method == method,
            known.user == user
        else { return nil }
        return known.verdict
    }

    mutating func keep(
        _ verdict: RequestVerdict,
        at place: Int,
        _ method: HTTPMethod,
        _ isUpgrade: Bool,
        _ target: borrowing Span<UInt8>,
        _ user: [UInt8]?
    ) {
        places[place] = Known(
            method: method,
            isUpgrade: isUpgrade,
            target: Array(copying: target),
            user: user,
            verdict: verdict
        )
    }
}
