// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore

/// The file that reports are appended to, one on each line. It is written on the reports' thread, which may wait for a
/// disk.
final class ReportFile: Sendable {
    let path: String
    private let output: LineOutput

    init(path: String) throws(IOFailure) {
        let descriptor = pinproxy_open_append(path)
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "open") }
        output = LineOutput(descriptor: descriptor)
        self.path = path
    }

    deinit {
        _ = output.finish()
        close(output.descriptor)
    }

    /// - Returns: whether the report is in the file, or will be completed by a later write because its beginning could
    ///   not be removed.
    func append(_ report: String) -> Bool { Array("\(report)\n".utf8).withUnsafeBytes { output.append($0).lost == 0 } }
}
