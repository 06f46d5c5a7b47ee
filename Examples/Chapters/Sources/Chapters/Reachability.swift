// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession

func reachability() throws -> NetworkReachabilityManager {
    let manager = NetworkReachabilityManager(host: try Host("www.apple.com"))
    try manager.startListening { status in
        print("Network Status Changed: \(status)")
    }
    return manager
}
