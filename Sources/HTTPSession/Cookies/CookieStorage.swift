import HTTPCore
import IOCore
public import SessionCore

/// The cookies of one session or several, in memory alone (RFC 6265, section 5.3). It is safe on any thread.
///
/// `SameSite` is ignored, since there are no pages that could cause requests.
///
/// `@unchecked Sendable`: `entries` and `count` are accessed with `lock` held, and all else is immutable.
public final class CookieStorage: @unchecked Sendable {
    private struct Entry {
        var cookie: Cookie
        /// The order of creation.
        let number: UInt64
        var usedAt: UInt64
    }

    private let lock = PosixLock()
    private var entries: [Cookie.Key: Entry] = [:]
    private var count: UInt64 = 0
    private let limit: Int
    private let limitPerDomain: Int

    /// - Parameters:
    ///   - limit: the largest number of cookies; the least recently used ones are removed.
    ///   - limitPerDomain: the same for one domain.
    public init(limit: Int = 3000, limitPerDomain: Int = 180) {
        self.limit = max(1, limit)
        self.limitPerDomain = max(1, limitPerDomain)
    }

    /// All cookies that have not expired, in the order of their creation.
    public var cookies: [Cookie] {
        let now = Self.now
        return lock.withLock {
            entries.values.filter { !$0.cookie.isExpired(at: now) }.sorted { $0.number < $1.number }.map(\.cookie)
        }
    }

    /// Adds a cookie, in place of one with the same name, domain and path.
    public func set(_ cookie: Cookie) {
        lock.withLock { insert(cookie, at: Self.now) }
    }

    /// Removes the cookie with the same name, domain and path, whatever its value.
    public func remove(_ cookie: Cookie) {
        lock.withLock { entries[cookie.key] = nil }
    }

    /// Removes all cookies of all hosts.
    public func removeAll() {
        lock.withLock { entries.removeAll() }
    }

    /// The cookies that a request for a URL gets, in that order.
    ///
    /// - Throws: `requestInvalid` for an invalid URL.
    public func cookies(for url: String) throws(SessionError) -> [Cookie] {
        let place = try RequestURL(url)
        return cookies(for: AbsoluteURL(origin: place.origin, rest: place.target), at: Self.now)
    }

    static var now: Int64 { Clock.realtime / 1_000_000 }

    // MARK: For TaskExecution

    func cookies(for url: AbsoluteURL, at now: Int64) -> [Cookie] {
        lock.withLock {
            var found: [Entry] = []
            count += 1
            for (key, entry) in entries where entry.cookie.applies(to: url) && !entry.cookie.isExpired(at: now) {
                found.append(entry)
                entries[key]?.usedAt = count
            }
            return found.sorted {
                let (left, right) = ($0.cookie.path.utf8.count, $1.cookie.path.utf8.count)
                return left == right ? $0.number < $1.number : left > right
            }.map(\.cookie)
        }
    }

    /// The value of `Cookie`; nil for none.
    func field(for url: AbsoluteURL) -> String? {
        let found = cookies(for: url, at: Self.now)
        return found.isEmpty ? nil : found.map { "\($0.name)=\($0.value)" }.joined(separator: "; ")
    }

    /// Stores the cookies of a response.
    func storeCookies(of fields: borrowing HTTPFields, from url: AbsoluteURL, at now: Int64) {
        var place = fields.first(.setCookie)
        while let index = place {
            var line: [UInt8] = []
            fields.appendValue(at: index, to: &line)
            if let cookie = Cookie(setCookie: line, from: url, at: now) {
                lock.withLock { store(cookie, from: url, at: now) }
            }
            place = fields.next(.setCookie, after: index)
        }
    }

    private func store(_ cookie: Cookie, from url: AbsoluteURL, at now: Int64) {
        if url.origin.scheme == .http {
            // An attacker on the network must not replace a cookie that was set over TLS.
            let hides = entries.values.contains { entry in
                entry.cookie.isSecure && entry.cookie.name == cookie.name && !entry.cookie.isExpired(at: now)
                    && (Cookie.matches(cookie.domain, entry.cookie.domain)
                        || Cookie.matches(entry.cookie.domain, cookie.domain))
            }
            guard !hides else { return }
        }
        insert(cookie, at: now)
    }

    private func insert(_ cookie: Cookie, at now: Int64) {
        count += 1
        let former = entries.removeValue(forKey: cookie.key)
        guard !cookie.isExpired(at: now) else { return }
        entries[cookie.key] = Entry(cookie: cookie, number: former?.number ?? count, usedAt: count)
        let own = entries.values.filter { $0.cookie.domain == cookie.domain }
        if own.count > limitPerDomain { drop(own, to: limitPerDomain, at: now) }
        if entries.count > limit { drop(Array(entries.values), to: limit, at: now) }
    }

    private func drop(_ some: [Entry], to limit: Int, at now: Int64) {
        let expired = some.filter { $0.cookie.isExpired(at: now) }
        for entry in expired { entries[entry.cookie.key] = nil }
        let left = some.filter { !$0.cookie.isExpired(at: now) }.sorted {
            ($0.usedAt, $0.number) < ($1.usedAt, $1.number)
        }
        for entry in left.prefix(max(0, left.count - limit)) { entries[entry.cookie.key] = nil }
    }
}
