// SPDX-License-Identifier: Apache-2.0
import CShims

/// The processors that this process may run on (sched_getaffinity(2)).
package enum SystemProcessors {
    package static var count: Int { Int(pinproxy_processors()) }
}
