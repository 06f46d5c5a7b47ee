// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("The name of a response's file", .onOwnThreads)
struct SuggestedFilenameTests {
    private func name(_ disposition: String?, _ url: String = "https://a.example/folder/file.txt?q=/x#/y") -> String? {
        var fields = HeaderFields()
        if let disposition { try? fields.append(name: "Content-Disposition", value: disposition) }
        return SuggestedFilename.of(fields, url: url)
    }

    @Test("the name is that of Content-Disposition")
    func disposition() {
        #expect(name("attachment; filename=plain.txt") == "plain.txt")
        #expect(name(#"inline; x=";"; FileName = "with; quote\".txt""#) == #"with; quote".txt"#)
        #expect(name("attachment; filename=a.txt; filename*=UTF-8''na%C3%AFve%20name.txt") == "na\u{EF}ve name.txt")
        #expect(name("attachment; filename*=iso-8859-1'en'%A3.txt") == "\u{A3}.txt")
        #expect(name("attachment; filename=good.txt; filename*=UTF-8''%GG") == "good.txt")
        #expect(name("attachment; filename*=x-unknown''a; filename=good.txt") == "good.txt")
    }

    @Test("the name is otherwise the last part of the URL's path")
    func path() {
        #expect(name(nil) == "file.txt")
        #expect(name("attachment") == "file.txt" && name("attachment; filename=") == "file.txt")
        #expect(name("filename=not-a-parameter") == "file.txt")
        #expect(name(nil, "https://a.example/caf%C3%A9") == "caf\u{E9}")
        for url in [
            "https://a.example", "https://a.example/", "https://a.example/folder/", "https://a.example?x=/y", "",
            "https://a.example/%ff", "https://a.example/..", "https://a.example/%2e",
        ] {
            #expect(name(nil, url) == nil, "\(url)")
        }
    }

    @Test("the name never leads to another folder or a hidden file")
    func harmless() {
        #expect(name(#"attachment; filename="../../etc/passwd""#) == "passwd")
        #expect(name(#"attachment; filename="..\\..\\boot.ini""#) == "boot.ini")
        #expect(name("attachment; filename*=UTF-8''..%2F..%2Fx") == "x")
        #expect(name(nil, "https://a.example/%2e%2e%2f%2e%2e%2fx%00y%0a") == "xy")
        #expect(name("attachment; filename=.bashrc") == "bashrc")
        #expect(name("attachment; filename=..") == "file.txt")
        #expect(name("attachment; filename=\(String(repeating: "\u{E9}", count: 300))")?.utf8.count == 254)
        #expect(name(nil, "https://a.example/x%E2%80%AEtxt.exe") == "xtxt.exe")
    }

    @Test("a download's destination gets the name, with the URL after redirects")
    func destination() async throws {
        let folder = try TemporaryFolder()
        let stage = try ManagerStage {
            $0.temporaryFolder = folder.path
        } responding: { request in
            request.target == "/" ? OriginResponse.redirect("/report.pdf") : OriginResponse.text("x")
        }
        let seen = Monitor("")
        let suggested = DownloadRequest.suggestedDownloadDestination(
            in: folder.path + "/deep",
            options: .createIntermediateDirectories
        )
        let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: ManagerStage.url("/"))) {
            path,
            response in
            seen.with { $0 = "\(response.url) \(response.status)" }
            return suggested(path, response)
        }
        let response = try await task.value()
        #expect(response.path == folder.path + "/deep/report.pdf" && response.url == ManagerStage.url("/report.pdf"))
        #expect(
            seen.with { $0 } == "\(ManagerStage.url("/report.pdf")) 200" && response.suggestedFilename == "report.pdf"
        )
        await stage.end()
    }
}
