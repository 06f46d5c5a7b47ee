// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import HTTPSessionCore
import IOCore

// Tells of reachability in the network namespace that it is started in, one status a line, until it is killed:
//
//     ReachabilityProbe [HOST]

let manager: NetworkReachabilityManager
if CommandLine.arguments.count > 1 {
    manager = NetworkReachabilityManager(host: try Host(CommandLine.arguments[1]))
} else {
    manager = NetworkReachabilityManager()
}
for await status in try manager.statuses() {
    DescriptorOutput.write("\(status)\n", to: STDOUT_FILENO)
}
