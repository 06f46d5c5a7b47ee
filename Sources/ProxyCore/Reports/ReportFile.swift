import CShims
import Glibc
import IOCore

/// The file that reports are appended to, one on a line. Written by the thread of the reports, which may wait for a disk.
final class ReportFile: Sendable {
    let path: String
    private let descriptor: Int32

    init(path: String) throws(IOFailure) {
        descriptor = pinproxy_open_append(path)
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "open") }
        self.path = path
    }

    deinit { close(descriptor) }

    /// - Returns: 0, or the `errno` value of the failure.
    func append(_ report: String) -> Int32 { DescriptorOutput.write(report + "\n", to: descriptor) }
}
