// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import SessionCore

/// The file of a `CookieStorage`. All members block on the disk: never on a loop.
///
/// It belongs to this user, and no other user can read or write it. It is replaced as a whole, so that it is complete after a
/// crash. Cookies without an expiry are not written.
struct CookieFile: Sendable {
    let path: String

    /// More than the largest storage needs.
    private static let limit = 64 << 20
    private static let version = 1

    // MARK: Reading

    /// The cookies that have not expired, in the order of their creation; none when there is no file.
    ///
    /// - Throws: `fileFailed` for a file that cannot be read, that belongs to another user or can be read or written by one, and
    ///   for one with other contents.
    func load(at now: Int64) throws(SessionError) -> [Cookie] {
        guard let bytes = try contents() else { return [] }
        let document: JSONValue
        do throws(JSONFault) {
            document = try JSONValue(parsing: bytes)
        } catch {
            throw fault("it is no file of cookies (\(error)); remove it")
        }
        guard let version = document["version"]?.int else { throw fault("it is no file of cookies; remove it") }
        guard version == Self.version else { throw fault("it has version \(version)") }
        let entries = document["cookies"]?.array?.map { Entry($0) }
        guard let entries, entries.allSatisfy({ $0 != nil }) else {
            throw fault("it is no file of cookies: a member is missing or has another form; remove it")
        }
        return entries.compactMap { $0?.cookie(at: now) }
    }

    private func contents() throws(SessionError) -> [UInt8]? {
        // Non-blocking, so that a named pipe is recognised.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw fault(String(cString: strerror(errno)))
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw fault(String(cString: strerror(errno))) }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid() else {
            throw fault("it is no regular file of this user")
        }
        // Another user could read sessions from it, or put sessions into it.
        guard status.st_mode & 0o077 == 0 else { throw fault("other users may use it; chmod 600 \(path)") }
        let count = Int(status.st_size)
        guard count <= Self.limit else { throw fault("it is longer than \(Self.limit >> 20) MB") }
        guard count > 0 else { return nil }
        if let bytes = DescriptorInput.read(descriptor, at: 0, count: count) { return bytes }
        throw fault("it cannot be read")
    }

    // MARK: Writing

    /// Replaces the file.
    func write(_ cookies: [Cookie], at now: Int64) throws(SessionError) {
        let kept = cookies.filter { $0.expires != nil && !$0.isExpired(at: now) }
        let document: JSONValue = [
            "version": .number(JSONNumber(Self.version)), "cookies": .array(kept.map { Entry($0).json }),
        ]
        let new = "\(path).\(String(UInt64.random(in: 0 ... .max), radix: 36)).part"
        do throws(IOFailure) {
            try fill(new, document.serialized([.withoutEscapingSlashes]))
            try FileMove.move(new, to: path, replacing: true)
            try FileMove.synchronizeFolder(of: path)
        } catch {
            FileMove.remove(new)
            throw fault("\(error)")
        }
    }

    private func fill(_ path: String, _ bytes: [UInt8]) throws(IOFailure) {
        let file = try GrowingFile(creating: path)
        try file.append(bytes)
        guard file.synchronize() else { throw IOFailure(code: EIO, during: "fdatasync") }
    }

    private func fault(_ why: String) -> SessionError {
        SessionError(.fileFailed, "The file of cookies \(path) cannot be used: \(why).")
    }

    // MARK: The document

    private struct Entry {
        let name: String
        let value: String
        let domain: String
        let hostOnly: Bool
        let path: String
        let expires: Int64
        let secure: Bool
        let httpOnly: Bool

        init(_ cookie: Cookie) {
            name = cookie.name
            value = cookie.value
            domain = cookie.domain.description
            hostOnly = cookie.isHostOnly
            path = cookie.path
            expires = cookie.expires ?? 0
            secure = cookie.isSecure
            httpOnly = cookie.isHTTPOnly
        }

        /// nil for a value of another form.
        init?(_ json: JSONValue) {
            guard let name = json["name"]?.string, let value = json["value"]?.string,
                let domain = json["domain"]?.string, let hostOnly = json["hostOnly"]?.bool,
                let path = json["path"]?.string, let expires = json["expires"]?.int,
                let secure = json["secure"]?.bool, let httpOnly = json["httpOnly"]?.bool
            else { return nil }
            self.name = name
            self.value = value
            self.domain = domain
            self.hostOnly = hostOnly
            self.path = path
            self.expires = Int64(expires)
            self.secure = secure
            self.httpOnly = httpOnly
        }

        var json: JSONValue {
            [
                "name": .string(name), "value": .string(value), "domain": .string(domain), "hostOnly": .bool(hostOnly),
                "path": .string(path), "expires": .number(JSONNumber(Int(expires))), "secure": .bool(secure),
                "httpOnly": .bool(httpOnly),
            ]
        }

        /// nil for a cookie that has expired, or that no server could have set.
        func cookie(at now: Int64) -> Cookie? {
            guard let host = try? Host(domain), !name.isEmpty,
                hostOnly || host.kind == .name && !Cookie.isSuffix(host)
            else { return nil }
            let cookie = Cookie(
                stored: name,
                value,
                host,
                isHostOnly: hostOnly,
                path: path,
                expires: min(expires, now.addingSaturated(Cookie.longest)),
                isSecure: secure,
                isHTTPOnly: httpOnly
            )
            return cookie?.isExpired(at: now) == false ? cookie : nil
        }
    }
}
