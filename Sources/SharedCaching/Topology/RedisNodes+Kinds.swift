// SPDX-License-Identifier: Apache-2.0
import IOCore

extension RedisNodes {
    static func make(_ plan: RedisPlan, loop: EventLoop, dial: @escaping RedisDial) -> RedisNodes {
        switch plan.kind {
        case .server: SingleServerNodes(plan, loop: loop, dial: dial)
        case .sentinel(let name, let login):
            SentinelNodes(plan, name: Array(name.utf8), login: login, loop: loop, dial: dial)
        case .cluster: ClusterNodes(plan, loop: loop, dial: dial)
        }
    }
}
