// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport

/// The parent: an origin with a file, and a process that reads it slowly.
struct StreamBenchmark {
    let bytes: Int

    func run() throws {
        let pki = try TestPKI("benchmark")
        let nginx = try NginxOrigin(try pki.server("127.0.0.1"))
        let folder = try TemporaryFolder()
        let anchors = try folder.write(pki.root.certificate.pem, as: "anchors.pem")
        let expected = try FileDigest.write(bytes, to: "\(nginx.folder.path)/files/large")
        print("\(bytes >> 20) MB from nginx over TLS 1.3 to a slow consumer; sizes in MB\n")
        print("                  MB   seconds   RssAnon at start, most, end")
        // The child writes to the same place.
        fflush(nil)
        let child = Process()
        child.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
        child.arguments = ["consume", "https://127.0.0.1:\(nginx.port)/files/large", anchors, expected]
        try child.run()
        child.waitUntilExit()
        guard child.terminationStatus == 0 else {
            throw DownloadBenchmark.Failure(description: "the consumer failed")
        }
        print("every byte, and no more memory for it")
    }
}
