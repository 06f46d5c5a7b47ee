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

        fileprivate var addresses: [SocketAddress] { (try? answer.get()) ?? [] }

        fileprivate var failure: NameFailure? {
            if case .failure(let failure) = answer { failure } else { nil }
        }
    }

    /// IPv4 addresses wait for those of IPv6 so long (RFC 8305's Resolution Delay).
    static let ipv6Delay = TimeSpan.milliseconds(50)
    /// IPv6 addresses wait for those of IPv4 so long. RFC 8305 would not wait, since its connections can begin with IPv6 and
    /// have IPv4 as a way out later; a dial of libcurl cannot be given more addresses.
    static let ipv4Delay = TimeSpan.seconds(1)
    /// The largest time to live of one family's addresses without a response for the other, in seconds.
    static let partialLifetime: UInt64 = 10

    /// The full names, the first one last.
    private var names: [String]
    private var ipv4: Response?
    private var ipv6: Response?
    /// When the addresses that are there are enough.
    private var end: UInt64?
    private let source: (SocketAddress) -> SocketAddress?

    /// - Parameters:
    ///   - domains: the search list.
    ///   - dots: a name with so many dots is first tried as it is.
    ///   - source: the address from which a destination would be connected to; nil without a route.
    init(_ name: String, domains: [String], dots: Int, source: @escaping (SocketAddress) -> SocketAddress?) {
        // Names below .onion are for no name server (RFC 7686), under no other name either.
        let longer = name.hasSuffix(".onion") ? [] : domains.map { "\(name).\($0)" }
        let isFirst = name.utf8.count { $0 == UInt8(ascii: ".") } >= dots
        names = (isFirst ? [name] + longer : longer + [name]).reversed()
        self.source = source
    }

    mutating func begin() -> Step { .ask(names.removeLast()) }

    mutating func note(_ response: Response, for family: Family, at now: UInt64) -> Step {
        switch family {
        case .ipv4: ipv4 = response
        case .ipv6: ipv6 = response
        }
        if let ipv4, let ipv6 { return finish(ipv4, ipv6) }
        // Without a route to them, the addresses are no reason to stop waiting.
        if let first = response.addresses.first, source(first) != nil {
            end = now &+ (family == .ipv4 ? Self.ipv6Delay : Self.ipv4Delay).nanoseconds
        }
        return .wait(until: end)
    }

    func proceed(at now: UInt64) -> Step {
        guard let end, now >= end, let response = ipv4 ?? ipv6 else { return .wait(until: end) }
        return .end(.success(response.addresses), lifetime: min(response.lifetime, Self.partialLifetime))
    }

    private mutating func finish(_ ipv4: Response, _ ipv6: Response) -> Step {
        switch (ipv4.addresses.first, ipv6.addresses.first) {
        case (_?, _?):
            let addresses = FamilyOrder.sorted(ipv4: ipv4.addresses, ipv6: ipv6.addresses, source: source)
            return .end(.success(addresses), lifetime: min(ipv4.lifetime, ipv6.lifetime))
        case (_?, nil): return .end(ipv4.answer, lifetime: lifetime(of: ipv4, beside: ipv6))
        case (nil, _?): return .end(ipv6.answer, lifetime: lifetime(of: ipv6, beside: ipv4))
        case (nil, nil): return fail(ipv4, ipv6)
        }
    }

    /// A family that may have addresses is asked for again soon.
    private func lifetime(of response: Response, beside other: Response) -> UInt64 {
        other.failure?.reason == .unknown ? response.lifetime : min(response.lifetime, Self.partialLifetime)
    }

    private mutating func fail(_ ipv4: Response, _ ipv6: Response) -> Step {
        let failures = [ipv4.failure, ipv6.failure].compactMap { $0 }
        // What leaves open whether there is an address comes before the word that there is none.
        if let open = failures.first(where: { $0.reason != .unknown }) { return .end(.failure(open), lifetime: 0) }
        guard !names.isEmpty else { return .end(ipv4.answer, lifetime: 0) }
        self.ipv4 = nil
        self.ipv6 = nil
        return .ask(names.removeLast())
    }
}
