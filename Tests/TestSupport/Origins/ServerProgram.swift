// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// A server program that has to be told its port. It ends with this object, by SIGTERM first: Squid has memory to unlink.
package final class ServerProgram: Sendable {
    package let port: UInt16
    private let process: ChildProcess
    private let reserved: Int32

    /// Starts it, and waits until it takes connections.
    ///
    /// - Parameter arguments: its arguments; gets the port, for those and for a configuration file.
    package init(
        _ name: String,
        environment: [String: String] = Programs.environment,
        folder: String? = nil,
        arguments: (UInt16) throws -> [String]
    ) throws {
        let (reserved, port) = try TestSocket.reserveRefusingPort()
        self.reserved = reserved
        self.port = port
        do {
            process = try ChildProcess(
                try Programs.path(of: name),
                try arguments(port),
                environment: environment,
                folder: folder
            )
        } catch {
            close(reserved)
            throw error
        }
        try Patience.poll(for: "\(name) to listen") { [process] in
            if let code = process.exitCode {
                throw ChildProcess.Failure(description: "\(name) ended with \(code): \(process.errors)")
            }
            return (try? TestClient(port: port)).map { _ in true }
        }
    }

    deinit {
        process.signal(SIGTERM)
        _ = try? process.waitForExit(seconds: 5)
        close(reserved)
    }

    /// What it has written to its standard output and error.
    package var output: String { process.output + process.errors }
}
