// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import SessionCore
import TestSupport

/// The real cache and a model of RFC 9111, side by side under a virtual clock: random requests, responses, purges,
/// changes of the policy, crashes and clock jumps. After each step both must have the same result.
///
/// A seed always gives the same run, except for results that depend on the order of a dictionary.
package final class Simulation {
    /// A difference between the cache and the model.
    package struct Difference: Error, CustomStringConvertible {
        package let description: String
    }

    let seed: UInt64
    let isShared: Bool
    let loop: EventLoop
    var traffic: SimulatedTraffic
    let model: CacheModel
    /// The machine that does the present step.
    var machine: SimulatedMachine
    private var machines: [SimulatedMachine]
    /// The level that the machines share; nil without one.
    let sharing: SimulatedSharing?
    var digest = 0
    var exchanges: [SimulatedExchange] = []
    private let folder: String?
    private let epochCount: Int
    private var lastNumber = 0
    /// The times of responses and their Date fields, each used once, so that of two responses one is always later.
    private var usedSeconds: Set<Int> = []
    /// The last steps, for the analysis of a difference.
    private var trace: [String] = []
    /// The number of steps of each kind.
    package private(set) var counts: [String: Int] = [:]

    static let atOnce = 12
    static let smallBody = 64

    /// - Parameters:
    ///   - folder: the folder of a disk store; nil for memory only.
    ///   - epochCount: the number of the store's counters of removals, which URIs share.
    ///   - machineCount: several share a level behind memory and disk. The first of them has the disk.
    package init(
        seed: UInt64,
        isShared: Bool,
        folder: String? = nil,
        epochCount: Int = 4096,
        machineCount: Int = 1
    ) throws {
        self.seed = seed
        self.isShared = isShared
        self.folder = folder
        self.epochCount = epochCount
        loop = try EventLoop(clock: .byHand)
        loop.setWallClock(1_800_000_000_000_000)
        traffic = SimulatedTraffic(seed: seed)
        model = CacheModel(isShared: isShared)
        machines = []
        for number in 0..<machineCount {
            let disk = number == 0 ? try folder.map { try Self.open($0, isShared) } : nil
            let cache = Self.make(disk, isShared, epochCount)
            machines.append(SimulatedMachine(number, cache, disk, smallBody: Self.smallBody))
        }
        machine = machines[0]
        sharing = machineCount > 1 ? SimulatedSharing() : nil
    }

    deinit { for machine in machines { machine.disk?.close() } }

    // MARK: The machine of the present step

    var cache: ResponseCache { machine.cache }
    var disk: DiskStore? { machine.disk }
    var stored: ModelStore {
        get { machine.stored }
        _modify { yield &machine.stored }
    }
    var flights: ModelFlights {
        get { machine.flights }
        _modify { yield &machine.flights }
    }
    var doubted: Set<String> {
        get { machine.doubted }
        _modify { yield &machine.doubted }
    }
    var failed: [String: UInt64] {
        get { machine.failed }
        _modify { yield &machine.failed }
    }

    private static func open(_ folder: String, _ isShared: Bool) throws -> DiskStore {
        var configuration = DiskStore.Configuration(folder: folder, capacity: 256 << 20)
        configuration.smallBody = smallBody
        let disk = try DiskStore(configuration, CacheOptions(isShared: isShared)) { _ in }
        disk.settle()
        return disk
    }

    private static func make(_ disk: DiskStore?, _ isShared: Bool, _ epochCount: Int) -> ResponseCache {
        let memory = MemoryStore(capacity: 64 << 20, largestBody: disk == nil ? nil : smallBody)
        let options = CacheOptions(isShared: isShared)
        return ResponseCache(CacheStore(memory: memory, disk: disk, options, epochCount: epochCount))
    }

    var now: Int { Int(loop.wallClock / 1_000_000) }

    // MARK: Running

    /// - Throws: `Difference` at the first one.
    package func run(steps: Int) throws {
        for step in 0..<steps {
            do {
                try self.step()
            } catch let difference as Difference {
                let course = trace.map { "  " + $0 }.joined(separator: "\n")
                throw Difference(
                    description: "seed \(seed), \(isShared ? "shared" : "private")\(folder == nil ? "" : ", on disk"), "
                        + "step \(step): \(difference)\nWhat was done before:\n\(course)"
                )
            }
        }
    }

    private func step() throws {
        try takeStep()
        try compareSharing()
    }

    private func takeStep() throws {
        if machines.count > 1 {
            machine = traffic.pick(machines)
            if traffic.chance(1) { sharing?.forget(uri()) }
        }
        let chance = traffic.below(1000)
        if exchanges.count >= Self.atOnce { return try proceed() }
        switch chance {
        case ..<460: try ask(traffic.request(uri(), now: now))
        case ..<480: try ask(traffic.unsafeRequest())
        case ..<860: try proceed()
        case ..<940: try pass(seconds: traffic.pick([0, 1, 1, 5, 20, 60]))
        case ..<950: try purge()
        case ..<970: try cancel()
        case ..<985:
            digest = traffic.below(3)
            note("the policy is \(digest)")
        case ..<988: traffic.change(uri())
        case ..<992: try jump()
        case ..<994: if folder != nil || traffic.chance(20) { try crash() }
        default: break
        }
    }

    func uri() -> Int { traffic.chance(30) ? SimulatedTraffic.inParts : traffic.below(SimulatedTraffic.paths.count) }

    func note(_ text: @autoclosure () -> String) {
        trace.append("\(now % 1_000_000) \(text())")
        if trace.count > 60 { trace.removeFirst(30) }
    }

    func count(_ what: String) { counts[what, default: 0] += 1 }

    /// Completes everything in progress, on the disk too.
    func drain() {
        repeat {
            for machine in machines { machine.disk?.settle() }
        } while loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0))
    }

    func nextNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    private func onEachMachine(_ body: () -> Void) {
        let present = machine
        for machine in machines {
            self.machine = machine
            body()
        }
        machine = present
    }

    // MARK: Time

    private func pass(seconds: Int) throws {
        loop.advance(by: .seconds(seconds))
        note("\(seconds) s pass")
        onEachMachine { for number in flights.expire(now: loop.now) { wake(number, .goAlone) } }
        drain()
        try compareWaiting()
    }

    /// A time at which no response has arrived yet.
    func unusedSecond() throws {
        while usedSeconds.contains(now) { try pass(seconds: 1) }
        usedSeconds.insert(now)
    }

    /// A date somewhat earlier or a little later that no response has had.
    func unusedDate() -> Int {
        var date = now - traffic.pick([0, 0, 0, 1, 10, 60, 3000, -3])
        while usedSeconds.contains(date) { date -= 1 }
        usedSeconds.insert(date)
        return date
    }

    private func jump() throws {
        let seconds = traffic.pick([-4000, -90, -6, -4, 30, 5000])
        loop.setWallClock(loop.wallClock + Int64(seconds) * 1_000_000)
        note("the clock is set by \(seconds) s")
        count("clock jumps")
    }

    // MARK: What is done to the whole

    private func purge() throws {
        let uri = uri()
        let key = SimulatedExchange.key(SimulatedTraffic.paths[uri], 0)
        func isOnHost(_ uri: Int) -> Bool { SimulatedTraffic.paths[uri].contains("//a.example/") }
        func remove(_ purge: Purge, _ fits: (ModelStore.Key, ModelEntry) -> Bool) {
            onEachMachine {
                cache.store.remove(purge, deliver: { $0() }, { _ in })
                stored.purge(fits)
            }
            sharing?.purge(fits)
        }
        count("purges")
        switch traffic.below(8) {
        case 0: remove(.everything) { _, _ in true }
        case 1: remove(.host("a.example")) { key, _ in isOnHost(key.uri) }
        case 2: remove(.tag("red")) { _, entry in entry.tags.contains("red") }
        case 3, 4: remove(.uri(key)) { key, _ in key.uri == uri }
        default:
            onEachMachine {
                cache.store.invalidate(key)
                stored.invalidate(SimulatedTraffic.paths[uri])
            }
            sharing?.purge { key, _ in key.uri == uri }
        }
        note("a purge, of \(uri) or more")
        drain()
    }

    /// Simulates the end of a machine's process; the disk keeps its entries.
    private func crash() throws {
        for exchange in exchanges where exchange.machine === machine {
            exchange.transaction.cancel()
            exchange.readings = []
        }
        drain()
        exchanges.removeAll { $0.machine === machine }
        note("a crash")
        count("crashes")
        guard let index = machines.firstIndex(where: { $0 === machine }) else { return }
        var left = stored
        left.crash()
        let hadDisk = disk != nil
        disk?.close()
        let disk = hadDisk ? try folder.map { try Self.open($0, isShared) } : nil
        machine = SimulatedMachine(
            index,
            Self.make(disk, isShared, epochCount),
            disk,
            smallBody: Self.smallBody,
            after: left
        )
        machines[index] = machine
        drain()
    }

    // MARK: Comparing

    func require<Value: Equatable>(_ exchange: SimulatedExchange, _ got: Value, _ expected: Value) throws {
        guard got != expected else { return }
        throw Difference(description: "\(exchange.text)\n  the cache: \(got)\n  the model: \(expected)")
    }

    /// The requests that waited and were woken.
    func compareWaiting() throws {
        for exchange in exchanges where exchange.hasWaited {
            try compare(exchange)
        }
        // No request waits for a response that will not arrive.
        for machine in machines {
            let waiting = exchanges.filter { $0.machine === machine && $0.phase == .waiting }.count
            guard machine.cache.waitingCount == waiting else {
                throw Difference(description: "\(machine.cache.waitingCount) requests wait, and not \(waiting)")
            }
        }
    }

    /// Checks the outcome before the request to the origin.
    func compare(_ exchange: SimulatedExchange) throws {
        let present = machine
        machine = exchange.machine
        defer { machine = present }
        try require(exchange, exchange.given.map { Self.outcome($0) } ?? .nothing, exchange.expected)
        exchange.hasWaited = exchange.phase == .waiting
        if case .forward? = exchange.given, exchange.phase == .asked { exchange.delivery.ask() }
        guard case .respond(let response)? = exchange.given else {
            if exchange.phase == .over { end(exchange) }
            return
        }
        try finishResponse(exchange, response)
    }

    /// Handles a delivered response, and starts its revalidation if needed.
    func finishResponse(_ exchange: SimulatedExchange, _ response: CacheTransaction.Response) throws {
        if case .growing(let reader) = response.body {
            let reading = SimulatedReading(exchange.number, reader, response.head.body, expected: exchange.promised)
            let leader = exchanges.first {
                $0.phase == .relaying && $0.key == exchange.key && $0.isOffered && $0.machine === exchange.machine
            }
            guard let leader else { throw Difference(description: "\(exchange.text) reads along with no other") }
            leader.readings.append(reading)
        }
        if response.refreshes { try refresh(exchange) }
        try deliver(exchange, response)
        end(exchange)
    }

    func end(_ exchange: SimulatedExchange) {
        exchange.transaction.cancel()
        exchanges.removeAll { $0 === exchange }
    }
}
