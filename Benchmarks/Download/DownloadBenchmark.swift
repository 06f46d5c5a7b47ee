// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport

/// The parent: an origin with a file, and two processes that fetch it, one after the other.
struct DownloadBenchmark {
    let bytes: Int

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    func run() throws {
        let pki = try TestPKI("benchmark")
        let nginx = try NginxOrigin(try pki.server("127.0.0.1"))
        let folder = try TemporaryFolder()
        let anchors = try folder.write(pki.root.certificate.pem, as: "anchors.pem")
        let expected = try FileDigest.write(bytes, to: "\(nginx.folder.path)/files/large")
        let url = "https://127.0.0.1:\(nginx.port)/files/large"
        let target = "\(folder.path)/target"
        print("\(bytes >> 20) MB from nginx over TLS 1.3, a restart in the middle; sizes in MB\n")
        print("process           MB   seconds   MB/s   CPU s   RssAnon at start, most, end")
        // The children write to the same place.
        fflush(nil)
        for part in ["first", "second"] {
            let half = part == "first" ? "\(bytes / 2)" : "all"
            let child = Process()
            child.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
            child.arguments = ["fetch", url, anchors, folder.path, target, half]
            try child.run()
            child.waitUntilExit()
            guard child.terminationStatus == 0 else { throw Failure(description: "the \(part) process failed") }
        }
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".part") }
        let found = try FileDigest.read(target)
        print("\nSHA-256 of the origin's file  \(expected)\nSHA-256 of the download       \(found)")
        guard found == expected, left.isEmpty else {
            throw Failure(description: "the download is another file, or left parts behind: \(left)")
        }
        print("the same, and nothing left behind")
    }
}
