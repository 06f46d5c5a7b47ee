// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The course of one name's queries: which full names are asked for (`search` and `ndots` of resolv.conf(5)), and when the
/// responses for IPv4 and IPv6 are enough (RFC 8305, section 3). A value; times are nanoseconds of a monotonic clock.
struct NameSearch {
    enum Family: CaseIterable, Sendable { case ipv4, ipv6 }

    enum Step: Equatable {
        /// A query for each family begins.
        case ask(String)
        /// Nothing happens before, unless a response comes; nil without an end.
        case wait(until: UInt64?)
        /// The end, with a time to live in seconds.
        case end(NameAnswer, lifetime: UInt64)
    }

    /// The response to one query.
    struct Response {
        let answer: NameAnswer
        /// The time to live, in seconds.
        let lifetime: UInt64
        /// Whether there is no such name, so that it has no addresses of the other family either (RFC 8020).
        var isAbsent = false

        fileprivate var addresses: [SocketAddress] { (try? answer.get()) ?? [] }

        fileprivate var failure: NameFailure? {
            if case .failure(let failure) = answer { failure } else { nil }
        }
    }

    /// IPv4 addresses wait for those of IPv6 so long (RFC 8305's Resolution Delay). The word that there is no such name waits
    /// as long: there are servers that say so of one family alone (RFC 4074, section 4.2).
    static let ipv6Delay = TimeSpan.milliseconds(50)
    /// The same of IPv6 addresses for those of IPv4. RFC 8305 would not wait, since its connections can begin with IPv6 and
    /// have IPv4 as a way out later; an `AddressRace` has all its addresses from the beginning.
    static let ipv4Delay = TimeSpan.seconds(1)
    /// The largest time to live of one family's addresses without a response for the other, in seconds.
    static let partialLifetime: UInt64 = 10

    /// The name without a domain of the search list.
    private let plainName: String
    /// The full names that have not been asked for, the first one last.
    private var names: [String]
    /// The full name that is asked for.
    private var name = ""
    private var ipv4: Response?
    private var ipv6: Response?
    /// When the response that is there is enough.
    private var end: UInt64?
    /// A name server has failed for a name with a search domain, so that it is not known whether that name has an address.
    private var openFailure: NameFailure?
    private let source: (SocketAddress) -> SocketAddress?
    private let isCheck: Bool

    /// - Parameters:
    ///   - domains: the search list.
    ///   - dots: a name with so many dots is first tried as it is.
    ///   - isCheck: whether an address is looked for among all of the name's, so that both families count alike.
    ///   - source: the address from which a destination would be connected to; nil without a route.
    init(
        _ name: String,
        domains: [String],
        dots: Int,
        isCheck: Bool = false,
        source: @escaping (SocketAddress) -> SocketAddress?
    ) {
        // Names below .onion are for no name server (RFC 7686), under no other name either.
        let longer = name.hasSuffix(".onion") ? [] : domains.map { "\(name).\($0)" }
        let isFirst = name.utf8.count { $0 == UInt8(ascii: ".") } >= dots
        plainName = name
        names = (isFirst ? [name] + longer : longer + [name]).reversed()
        self.source = source
        self.isCheck = isCheck
    }

    mutating func begin() -> Step { askNext() }

    private mutating func askNext() -> Step {
        name = names.removeLast()
        (ipv4, ipv6, end) = (nil, nil, nil)
        return .ask(name)
    }

    mutating func note(_ response: Response, for family: Family, at now: UInt64) -> Step {
        switch family {
        case .ipv4: ipv4 = response
        case .ipv6: ipv6 = response
        }
        if let ipv4, let ipv6 { return finish(ipv4, ipv6) }
        // Addresses that the system has no route to do not start the delay: the other family may have usable ones.
        if response.isAbsent || response.addresses.first.flatMap(source) != nil {
            end = now &+ (family == .ipv4 && !isCheck ? Self.ipv6Delay : Self.ipv4Delay).nanoseconds
        }
        return .wait(until: end)
    }

    mutating func proceed(at now: UInt64) -> Step {
        guard let end, now >= end, let response = ipv4 ?? ipv6 else { return .wait(until: end) }
        if let failure = response.failure { return goOn(failure) }
        return .end(.success(response.addresses), lifetime: min(response.lifetime, Self.partialLifetime))
    }

    private mutating func finish(_ ipv4: Response, _ ipv6: Response) -> Step {
        switch (ipv4.failure, ipv6.failure) {
        case (nil, nil):
            let addresses = FamilyOrder.sorted(ipv4: ipv4.addresses, ipv6: ipv6.addresses, source: source)
            return .end(.success(addresses), lifetime: min(ipv4.lifetime, ipv6.lifetime))
        case (nil, let other?): return .end(ipv4.answer, lifetime: lifetime(of: ipv4, beside: other))
        case (let other?, nil): return .end(ipv6.answer, lifetime: lifetime(of: ipv6, beside: other))
        case (let first?, let second?):
            if ipv4.isAbsent { return goOn(first) }
            if ipv6.isAbsent { return goOn(second) }
            return second.reason == .unknown || first.reason != .unknown ? fail(first) : fail(second)
        }
    }

    /// The other family may have addresses, so that this result is kept only for a short time.
    private func lifetime(of response: Response, beside failure: NameFailure) -> UInt64 {
        failure.reason == .unknown ? response.lifetime : min(response.lifetime, Self.partialLifetime)
    }

    /// A failure that leaves open whether the name has an address is reported rather than "no address".
    private mutating func fail(_ failure: NameFailure) -> Step {
        switch failure.reason {
        case .unknown: return goOn(failure)
        // The servers of one domain do not keep the name from being found under another one, as in glibc. The name itself
        // becomes no other one because its servers fail.
        case .failed where name != plainName:
            openFailure = openFailure ?? failure
            return goOn(failure)
        case .failed, .silent, .withoutDescriptor: return .end(.failure(failure), lifetime: 0)
        }
    }

    private mutating func goOn(_ failure: NameFailure) -> Step {
        names.isEmpty ? .end(.failure(openFailure ?? failure), lifetime: 0) : askNext()
    }
}
