// SPDX-License-Identifier: Apache-2.0
/// One server under one or several addresses: the first address that is of use counts.
final class SingleServerNodes: LinkedNodes {
    override func run(_ errand: RedisErrand) {
        let isSent = addresses.contains {
            servers.link(to: $0)?.take(errand.command, by: errand.deadline, errand.completion) ?? false
        }
        if !isSent { fail(errand, .busy) }
    }
}
