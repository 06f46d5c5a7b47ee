// SPDX-License-Identifier: Apache-2.0
import IOCore
import SessionCore

/// `timeouts.total` is over while an interceptor works.
struct TotalExpiry: Error {
    let limit: TimeSpan

    func error(_ interceptor: String) -> SessionError {
        SessionError(
            .responseTimeout,
            "\(interceptor) of the request took longer than timeouts.total (\(limit.milliseconds) ms)."
        )
    }
}
