// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import IOCore

@Suite("How descriptors are shared out")
struct DescriptorSharesTests {
    @Test(
        "clients with their connections, idle ones and the reserve fit the limit",
        arguments: [64, 100, 256, 1024, 4096, 65_536, 1 << 20, Int(Int32.max)],
        [1, 2, 8]
    )
    func fits(limit: Int, workers: Int) {
        let shares = DescriptorShares(limit: limit, opened: 20, workers: workers)
        #expect(shares.clients >= 1 && shares.idleOrigins >= 1 && shares.reserve >= 16)
        if shares.clients > 1 {
            #expect(20 + 2 * shares.clients + workers * shares.idleOrigins + shares.reserve <= limit)
        }
        #expect(shares.firstReserved == limit - shares.reserve)
    }

    @Test("a limit that is too low for anything leaves one client")
    func tooLow() {
        #expect(DescriptorShares(limit: 20, opened: 30, workers: 2).clients == 1)
    }
}
