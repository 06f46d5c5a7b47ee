// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ServerTrust

/// The data for resuming an interrupted download, in a file beside the download's.
struct ResumeFile {
    let path: String

    /// - Parameter output: the download's own file.
    init(for output: String) { path = output + ".resume" }

    /// The folder of `output`: partial downloads are stored there, so that a rename can complete them.
    static func folder(of output: String) -> String {
        guard let slash = output.lastIndex(of: "/") else { return "." }
        return slash == output.startIndex ? "/" : String(output[..<slash])
    }

    /// - Returns: nil when there is none.
    func read() throws(CommandFailure) -> [UInt8]? {
        guard access(path, F_OK) == 0 else { return nil }
        switch FileContents.read(path, limit: 1 << 20) {
        case .success(let bytes): return bytes
        case .failure(let fault): throw CommandFailure(.failed, "\(path): \(fault.message)", remedy: fault.remedy)
        }
    }

    /// - Returns: whether the data is on the disk.
    func write(_ bytes: [UInt8]) -> Bool {
        // A link at this path must not be followed.
        unlink(path)
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return false }
        let isWritten = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor) } == 0
        if close(descriptor) == 0, isWritten { return true }
        unlink(path)
        return false
    }

    func remove() { unlink(path) }
}
