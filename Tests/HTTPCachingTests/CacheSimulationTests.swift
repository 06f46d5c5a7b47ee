// SPDX-License-Identifier: Apache-2.0
import CacheSimulation
import TestSupport
import Testing

/// A short run of `make cache-simulation`.
@Suite("The cache beside a model of RFC 9111")
struct CacheSimulationTests {
    @Test("cache and model agree on random requests, responses, purges, crashes and clocks", arguments: [true, false])
    func inMemory(isShared: Bool) throws {
        let simulation = try Simulation(seed: isShared ? 1001 : 1002, isShared: isShared)
        try simulation.run(steps: 4_000)
    }

    @Test("cache and model agree with a disk, which outlives crashes", arguments: [true, false])
    func onDisk(isShared: Bool) throws {
        let folder = try TemporaryFolder()
        let seed: UInt64 = isShared ? 2001 : 2002
        let simulation = try Simulation(seed: seed, isShared: isShared, folder: folder.path + "/cache")
        try simulation.run(steps: 1_000)
    }

    @Test("cache and model agree on machines that share a level", arguments: [true, false])
    func sharedLevel(isShared: Bool) throws {
        let folder = try TemporaryFolder()
        let inMemory = try Simulation(seed: isShared ? 4001 : 4002, isShared: isShared, machineCount: 2)
        try inMemory.run(steps: 4_000)
        let onDisk = try Simulation(
            seed: isShared ? 4003 : 4004,
            isShared: isShared,
            folder: folder.path + "/cache",
            machineCount: 3
        )
        try onDisk.run(steps: 1_000)
        for what in ["shared responses", "stored in the shared level", "look-ups in the shared level"] {
            #expect((inMemory.counts[what] ?? 0) > 10, "\(what)")
        }
    }

    @Test("cache and model agree where URIs share counters of removals", arguments: [1, 4])
    func sharedCounters(epochCount: Int) throws {
        let folder = try TemporaryFolder()
        let inMemory = try Simulation(seed: 3001, isShared: true, epochCount: epochCount)
        try inMemory.run(steps: 2_000)
        let onDisk = try Simulation(seed: 3002, isShared: true, folder: folder.path + "/cache", epochCount: epochCount)
        try onDisk.run(steps: 500)
    }
}
