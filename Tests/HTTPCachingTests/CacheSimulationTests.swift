import CacheSimulation
import TestSupport
import Testing

/// A short run of `make cache-simulation`.
@Suite("The cache beside a model of RFC 9111")
struct CacheSimulationTests {
    @Test("requests, answers, purges, crashes and clocks by chance: both do the same", arguments: [true, false])
    func inMemory(isShared: Bool) throws {
        let simulation = try Simulation(seed: isShared ? 1001 : 1002, isShared: isShared)
        try simulation.run(steps: 4_000)
    }

    @Test("the same with a disk, which outlives crashes", arguments: [true, false])
    func onDisk(isShared: Bool) throws {
        let folder = try TemporaryFolder()
        let seed: UInt64 = isShared ? 2001 : 2002
        let simulation = try Simulation(seed: seed, isShared: isShared, folder: folder.path + "/cache")
        try simulation.run(steps: 1_000)
    }
}
