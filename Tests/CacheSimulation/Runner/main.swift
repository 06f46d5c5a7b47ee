// SPDX-License-Identifier: Apache-2.0
import CacheSimulation
import Glibc
import TestSupport

// cache-simulation [STEPS [SEED [SEEDS]]]: runs STEPS steps in total over eight seeds (or SEEDS) from SEED on, every
// second one with a disk, two of four shared, the last three of eight on machines that share a level. Ends with 1 at the first difference.
let arguments = CommandLine.arguments.dropFirst().compactMap { UInt64($0) }
let steps = Int(arguments.first ?? 1_000_000)
let first = arguments.count > 1 ? arguments[1] : 1
let count = arguments.count > 2 ? max(1, Int(arguments[2])) : 8
var total: [String: Int] = [:]
for seed in first..<first + UInt64(count) {
    let folder = seed % 2 == 0 ? try TemporaryFolder() : nil
    let simulation = try Simulation(
        seed: seed,
        isShared: seed % 4 < 2,
        folder: folder.map { $0.path + "/cache" },
        machineCount: seed % 8 < 5 ? 1 : 2
    )
    do {
        try simulation.run(steps: steps / count)
    } catch {
        print("\(error)")
        exit(1)
    }
    print("seed \(seed): \(steps / count) steps without a difference")
    fflush(nil)
    total.merge(simulation.counts) { $0 + $1 }
}
print(total.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
