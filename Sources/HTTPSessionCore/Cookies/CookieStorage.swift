// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
public import SessionCore

/// The cookies of one session or several (RFC 6265, section 5.3), in memory, or also in a file. It is safe on any thread.
///
/// `SameSite` is ignored, since there are no pages that could cause requests.
///
/// `@unchecked Sendable`: `entries`, `count` and `isUnsaved` are accessed with `lock` held, and all else is immutable.
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
    private var isUnsaved = false
    private let limit: Int
    private let limitPerDomain: Int
    private let keeper: CookieKeeper?

    /// Cookies in memory alone.
    ///
    /// - Parameters:
    ///   - limit: the largest number of cookies; the least recently used ones are removed.
    ///   - limitPerDomain: the same for one domain.
    public init(limit: Int = 3000, limitPerDomain: Int = 180) {
        self.limit = max(1, limit)
        self.limitPerDomain = max(1, limitPerDomain)
        keeper = nil
    }

    /// Cookies that also stand in a file, for the next start of the program. It reads the file, so that it blocks on the disk.
    ///
    /// The file is replaced as a whole, at most a second after a change; `save` does it at once. Only this user can read it.
    /// Cookies without an expiry end with the program, and are never written. Of two storages with one file the last to write
    /// counts: use one.
    ///
    /// - Parameters:
    ///   - file: its path; a missing file is made with the first cookie.
    ///   - limit: the largest number of cookies; the least recently used ones are removed.
    ///   - limitPerDomain: the same for one domain.
    /// - Throws: `fileFailed` for a file that is no file of cookies, belongs to another user, or can be used by one.
    public init(file: String, limit: Int = 3000, limitPerDomain: Int = 180) throws(SessionError) {
        self.limit = max(1, limit)
        self.limitPerDomain = max(1, limitPerDomain)
        let contents = CookieFile(path: file)
        let now = Self.now
        let cookies = try contents.load(at: now)
        keeper = try CookieKeeper(contents)
        for cookie in cookies { insert(cookie, at: now) }
        isUnsaved = false
    }

    deinit {
        if isUnsaved { keeper?.saveLast(entries.values.sorted { $0.number < $1.number }.map(\.cookie), at: Self.now) }
    }

    /// Writes the file now, if there is one, and returns when it has been replaced. For the end of a program, which would
    /// otherwise lose the changes of its last second.
    ///
    /// - Throws: `fileFailed`.
    public func save() async throws(SessionError) { try await keeper?.save(self) }

    /// All cookies that have not expired, in the order of their creation.
    public var cookies: [Cookie] {
        let now = Self.now
        return lock.withLock {
            entries.values.filter { !$0.cookie.isExpired(at: now) }.sorted { $0.number < $1.number }.map(\.cookie)
        }
    }

    /// Adds a cookie, in place of one with the same name, domain and path.
    public func set(_ cookie: Cookie) {
        change { insert(cookie, at: Self.now) }
    }

    /// Removes the cookie with the same name, domain and path, whatever its value.
    public func remove(_ cookie: Cookie) {
        change { drop(cookie.key) }
    }

    /// Removes all cookies of all hosts.
    public func removeAll() {
        change { for key in Array(entries.keys) { drop(key) } }
    }

    /// The cookies that a request for a URL gets, in that order.
    ///
    /// - Throws: `requestInvalid` for an invalid URL.
    public func cookies(for url: String) throws(SessionError) -> [Cookie] {
        let place = try RequestURL(url)
        return cookies(for: AbsoluteURL(origin: place.origin, rest: place.target), at: Self.now)
    }

    static var now: Int64 { Clock.seconds }

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
    func storeCookies(of fields: borrowing HeaderFields, from url: AbsoluteURL, at now: Int64) {
        var found = fields.first(.setCookie)
        while let index = found {
            var line: [UInt8] = []
            fields.appendValue(at: index, to: &line)
            if let cookie = Cookie(setCookie: line, from: url, at: now) {
                change { store(cookie, from: url, at: now) }
            }
            found = fields.next(.setCookie, after: index)
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
        if former?.cookie != cookie, former?.cookie.expires != nil || cookie.expires != nil { isUnsaved = true }
        guard !cookie.isExpired(at: now) else { return }
        entries[cookie.key] = Entry(cookie: cookie, number: former?.number ?? count, usedAt: count)
        let own = entries.values.filter { $0.cookie.domain == cookie.domain }
        if own.count > limitPerDomain { drop(own, to: limitPerDomain, at: now) }
        if entries.count > limit { drop(Array(entries.values), to: limit, at: now) }
    }

    private func drop(_ some: [Entry], to limit: Int, at now: Int64) {
        let expired = some.filter { $0.cookie.isExpired(at: now) }
        for entry in expired { drop(entry.cookie.key) }
        let left = some.filter { !$0.cookie.isExpired(at: now) }.sorted {
            ($0.usedAt, $0.number) < ($1.usedAt, $1.number)
        }
        for entry in left.prefix(max(0, left.count - limit)) { drop(entry.cookie.key) }
    }

    private func drop(_ key: Cookie.Key) {
        if entries.removeValue(forKey: key)?.cookie.expires != nil { isUnsaved = true }
    }

    // MARK: The file

    /// Makes a change, and has it saved.
    private func change(_ work: () -> Void) {
        let isDue = lock.withLock {
            work()
            return isUnsaved
        }
        if isDue { keeper?.plan(self) }
    }

    /// The cookies, if they have changed since they were last taken; in the order of their creation.
    func takeUnsaved() -> [Cookie]? {
        lock.withLock {
            guard isUnsaved else { return nil }
            isUnsaved = false
            return entries.values.sorted { $0.number < $1.number }.map(\.cookie)
        }
    }

    /// They could not be saved.
    func keepUnsaved() {
        lock.withLock { isUnsaved = true }
    }
}
