// SPDX-License-Identifier: Apache-2.0
import IOCore
package import SessionCore

extension TaskTimeouts {
    /// These limits with another one for each wait: for the connection (unless the present limit is shorter), for the
    /// response, and for each of its bytes.
    package func waiting(atMost interval: Duration) -> TaskTimeouts {
        let limits = TaskTimeouts(connect: interval, firstByte: interval, stall: interval).spans
        var result = self
        result.spans.connect = min(spans.connect, limits.connect)
        result.spans.firstByte = limits.firstByte
        result.spans.stall = limits.stall
        return result
    }
}
