// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Cookies in a file", .onOwnThreads)
struct CookieFileTests {
    private static let later = CookieStorage.now + 1000

    private func cookie(
        _ name: String,
        _ value: String = "v",
        host: String = "a.example.com",
        expires: Int64? = Self.later
    )
        throws -> Cookie
    {
        try Cookie(name: name, value: value, domain: try Host(host), expires: expires)
    }

    private func mode(_ path: String) -> mode_t? {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_mode & 0o777 : nil
    }

    private func text(of path: String) throws -> String {
        String(decoding: try FileContents.read(path, limit: 1 << 20).get(), as: UTF8.self)
    }

    private func names(in folder: String) -> [String] {
        var names: [String] = []
        guard let listing = opendir(folder) else { return [] }
        defer { closedir(listing) }
        while let entry = readdir(listing) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    @Test("saved cookies are restored in order; session cookies and expired ones are not saved")
    func saved() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/cookies.json"
        let storage = try CookieStorage(file: path)
        #expect(storage.cookies.isEmpty && mode(path) == nil)
        let kept = [
            try cookie("a", "x=\"y\"\\ä"), try cookie("b", host: "::1"),
            try Cookie(
                name: "c",
                value: "",
                domain: try Host("example.com"),
                isHostOnly: false,
                path: "/p",
                expires: Self.later,
                isSecure: false,
                isHTTPOnly: true
            ),
        ]
        for cookie in kept { storage.set(cookie) }
        storage.set(try cookie("secret-session", expires: nil))
        storage.set(try cookie("expired", expires: CookieStorage.now - 1))
        try await storage.save()
        #expect(mode(path) == 0o600)
        let text = try text(of: folder.path + "/cookies.json")
        #expect(!text.contains("secret-session") && !text.contains("expired"))
        #expect(try CookieStorage(file: path).cookies == kept)
        #expect(names(in: folder.path) == ["cookies.json"])
        storage.remove(kept[0])
        try await storage.save()
        #expect(try CookieStorage(file: path).cookies == Array(kept.dropFirst()))
        storage.removeAll()
        try await storage.save()
        #expect(try CookieStorage(file: path).cookies.isEmpty)
    }

    @Test("a change is written by itself, also one just before the storage goes")
    func byItself() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/cookies.json"
        let storage = try CookieStorage(file: path)
        storage.set(try cookie("a"))
        try await eventually("the file") { (try? CookieStorage(file: path).cookies.count) == 1 }
        do {
            let other = try CookieStorage(file: folder.path + "/other.json")
            other.set(try cookie("b"))
        }
        try await eventually("the last write") {
            (try? CookieStorage(file: folder.path + "/other.json").cookies.map(\.name)) == ["b"]
        }
    }

    @Test("cookies from a file keep the same rules as received ones")
    func rules() async throws {
        let folder = try TemporaryFolder()
        func entry(
            _ name: String,
            _ domain: String = "a.example.com",
            hostOnly: Bool = true,
            path: String = "/",
            expires: Int64 = Self.later,
            secure: Bool = true
        ) -> String {
            """
            {"name":"\(name)","value":"v","domain":"\(domain)","hostOnly":\(hostOnly),"path":"\(path)","expires":\(expires),\
            "secure":\(secure),"httpOnly":false}
            """
        }
        let entries = [
            entry("good"), entry("late", expires: .max / 2), entry("old", expires: 1), entry("__Host-x", secure: false),
            entry("__Secure-x", secure: false), entry("suffix", "co.uk", hostOnly: false), entry("bad name;"),
            entry("path", path: "relative"), entry("host", "a b"), entry("", "a.example.com"),
        ]
        try folder.write(#"{"version":1,"cookies":[\#(entries.joined(separator: ","))]}"#, as: "cookies.json")
        let storage = try CookieStorage(file: folder.path + "/cookies.json")
        #expect(storage.cookies.map(\.name) == ["good", "late"])
        #expect(storage.cookies.last?.expires.map { $0 <= CookieStorage.now + 400 * 86_400 } == true)
        #expect(try CookieStorage(file: folder.path + "/cookies.json", limit: 1).cookies.map(\.name) == ["late"])
    }

    @Test(
        "a file that others can use, or without cookies, is refused and stays",
        arguments: [
            (#"{"version":1,"cookies":[]}"#, 0o640), (#"{"version":1,"cookies":[]}"#, 0o602), ("junk", 0o600),
            (#"{"version":2,"cookies":[]}"#, 0o600), (#"{"cookies":[]}"#, 0o600),
        ] as [(String, mode_t)]
    )
    func refused(text: String, mode: mode_t) throws {
        let folder = try TemporaryFolder()
        try folder.write(text, as: "cookies.json")
        chmod(folder.path + "/cookies.json", mode)
        let error = #expect(throws: SessionError.self) { try CookieStorage(file: folder.path + "/cookies.json") }
        #expect(error?.code == .fileFailed)
        #expect(try self.text(of: folder.path + "/cookies.json") == text)
    }

    @Test("a link, a folder or a pipe is refused as a file of cookies")
    func otherFiles() async throws {
        let folder = try TemporaryFolder()
        try folder.write(#"{"version":1,"cookies":[]}"#, as: "there.json")
        symlink("there.json", folder.path + "/link.json")
        mkfifo(folder.path + "/pipe.json", 0o600)
        for name in ["link.json", "pipe.json", ""] {
            #expect(throws: SessionError.self) { try CookieStorage(file: folder.path + "/" + name) }
        }
        let storage = try CookieStorage(file: folder.path + "/missing/cookies.json")
        storage.set(try cookie("a"))
        for _ in 0..<2 {
            let error = await #expect(throws: SessionError.self) { try await storage.save() }
            #expect(error?.code == .fileFailed)
        }
        mkdir(folder.path + "/missing", 0o700)
        try await storage.save()
        #expect(try CookieStorage(file: folder.path + "/missing/cookies.json").cookies.count == 1)
    }

    @Test("a session stores the cookies of a server, and the next one sends them")
    func sessions() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/cookies.json"
        for round in 0..<2 {
            let storage = try CookieStorage(file: path)
            let stage = try ManagerStage({ $0.cookieStorage = storage }) { request in
                let set = ["Set-Cookie: a=1; Max-Age=1000", "Set-Cookie: s=2"]
                return OriginResponse.text(request["Cookie"] ?? "-", fields: set)
            }
            let response = try await stage.manager.dataTask(with: HTTPSessionRequest(url: ManagerStage.url("/")))
                .value()
            #expect(String(decoding: response.data, as: UTF8.self) == (round == 0 ? "-" : "a=1"))
            await stage.end()
            try await storage.save()
        }
    }
}
