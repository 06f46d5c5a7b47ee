// SPDX-License-Identifier: Apache-2.0
/// The model's store: two levels, of which only the disk survives the process.
struct ModelStore {
    struct Key: Hashable {
        var uri: Int
        var partition: Int
    }

    struct Found {
        var entries: [ModelEntry] = []
        var selected: Int?
        /// The entry of which parts are stored, if no complete one is selected.
        var part: ModelEntry?
        var entry: ModelEntry? { selected.map { entries[$0] } }
    }

    let hasDisk: Bool
    /// Larger bodies are in files, and not in memory.
    let smallBody: Int
    private(set) var memory: [Key: [ModelEntry]] = [:]
    private(set) var disk: [Key: [ModelEntry]] = [:]
    /// Responses of which only parts are stored, in memory.
    private var parts: [Key: [ModelEntry]] = [:]
    /// The counter of removals of a URL; URLs may share one.
    private let counter: (String) -> Int
    private var removals: [Int: Int] = [:]
    private var files: Set<Int> = []
    private var last = 0

    init(hasDisk: Bool, smallBody: Int, counter: @escaping (String) -> Int) {
        self.hasDisk = hasDisk
        self.smallBody = smallBody
        self.counter = counter
    }

    /// Counts the removals of a URI: a response that was requested before a removal is not stored after it.
    func removals(of uri: Int) -> Int { removals[counter(SimulatedTraffic.paths[uri])] ?? 0 }

    mutating func next() -> Int {
        last += 1
        return last
    }

    func isSmall(_ body: String) -> Bool { body.utf8.count <= smallBody }

    static func hasSecret(_ entry: ModelEntry) -> Bool {
        entry.selecting.contains { ["cookie", "authorization"].contains($0[0]) && $0[1] != nil }
    }

    /// Whether the body of an entry still exists.
    func isAlive(_ entry: ModelEntry) -> Bool { entry.file.map { files.contains($0) } ?? true }

    // MARK: Finding

    mutating func find(_ key: Key, _ request: ModelRequest, _ digest: Int) -> Found {
        let part = Self.select(among: parts[key] ?? [], request, digest).entry
        var found = findWhole(key, request, digest)
        if found.selected == nil { found.part = part }
        return found
    }

    private mutating func findWhole(_ key: Key, _ request: ModelRequest, _ digest: Int) -> Found {
        let found = Self.select(among: memory[key] ?? [], request, digest)
        guard found.selected == nil, hasDisk, disk.contains(where: { $0.key.uri == key.uri && !$0.value.isEmpty })
        else {
            return found
        }
        var copies = disk[key] ?? []
        for index in copies.indices { copies[index].object = next() }
        let onDisk = Self.select(among: copies, request, digest)
        if let entry = onDisk.entry {
            removeFromMemory(key, like: entry)
            if entry.file == nil { memory[key, default: []].append(entry) }
        }
        return onDisk
    }

    static func select(among all: [ModelEntry], _ request: ModelRequest, _ digest: Int) -> Found {
        var found = Found(entries: all.filter { $0.digest == digest })
        for (index, entry) in found.entries.enumerated() where matches(entry, request) {
            if let known = found.entry, (entry.date, entry.responseTime) < (known.date, known.responseTime) { continue }
            found.selected = index
        }
        return found
    }

    static func matches(_ entry: ModelEntry, _ request: ModelRequest) -> Bool {
        entry.selecting == CacheModel.selecting(entry.selecting.map { $0[0] ?? "" }, request.fields)
    }

    // MARK: Storing

    mutating func store(_ new: ModelEntry, at key: Key, inMemoryOnly: Bool) {
        var entry = new
        (entry.head, entry.object) = (next(), next())
        entry.file = hasDisk && !isSmall(entry.body) ? next() : nil
        removeFromMemory(key, like: entry)
        if entry.file == nil { memory[key, default: []].append(entry) }
        guard hasDisk, !inMemoryOnly, !Self.hasSecret(entry) else { return }
        removeFromDisk(key) { $0.selecting == entry.selecting }
        if let file = entry.file { files.insert(file) }
        disk[key, default: []].append(entry)
    }

    /// Keeps a response of the shared level in memory.
    mutating func keep(_ new: ModelEntry, at key: Key) -> ModelEntry {
        var entry = new
        // The disk may have the same response, which an update of this one updates, too.
        let row = disk[key]?.first {
            $0.responseTime == new.responseTime && $0.selecting == new.selecting && $0.digest == new.digest
                && !$0.isMarkedStale
        }
        (entry.head, entry.object, entry.file) = (row?.head ?? next(), next(), nil)
        removeFromMemory(key, like: entry)
        if !hasDisk || isSmall(entry.body) { memory[key, default: []].append(entry) }
        return entry
    }

    /// Replaces the head of an entry in each level that still has it.
    mutating func update(_ entry: ModelEntry, by new: ModelEntry, at key: Key) -> ModelEntry {
        var new = new
        (new.head, new.object) = (next(), next())
        if !Self.hasSecret(new) {
            if let row = disk[key]?.firstIndex(where: { $0.head == entry.head }) {
                var updated = new
                updated.file = disk[key]?[row].file
                disk[key]?[row] = updated
                removeFromDisk(key) { $0.selecting == new.selecting && $0.head != new.head }
            }
        } else if !Self.hasSecret(entry) {
            removeFromDisk { $0.uri == key.uri }
        }
        if let index = memory[key]?.firstIndex(where: { $0.object == entry.object }) {
            memory[key]?.remove(at: index)
            removeFromMemory(key, like: new)
            memory[key, default: []].append(new)
        }
        return new
    }

    // MARK: Parts

    /// The largest number of bytes that are stored of a response that is not complete.
    var partsAtMost: Int { hasDisk ? smallBody : .max }

    /// Stores parts, together with those of the same representation.
    ///
    /// - Returns: whether they are stored.
    mutating func store(part: ModelEntry, at key: Key) -> Bool {
        guard let own = part.parts, memory[key]?.contains(where: { $0.selecting == part.selecting }) != true else {
            return false
        }
        var entry = part
        if let old = parts[key]?.first(where: { $0.selecting == part.selecting }), old.digest == part.digest,
            old.isSame(as: part.fields), let both = old.parts?.with(own, atMost: partsAtMost)
        {
            if (part.date, part.responseTime) < (old.date, old.responseTime) { entry = old }
            entry.parts = both
            entry.tags = part.tags.union(old.tags)
        }
        if let all = entry.parts, all.gap == nil {
            entry.parts = nil
            store(entry, at: key, inMemoryOnly: all.isInMemoryOnly)
            return true
        }
        removeFromMemory(key, like: entry)
        entry.object = next()
        parts[key, default: []].append(entry)
        return true
    }

    mutating func drop(_ part: ModelEntry, at key: Key) { parts[key]?.removeAll { $0.object == part.object } }

    private mutating func removeFromMemory(_ key: Key, like entry: ModelEntry) {
        memory[key, default: []].removeAll { $0.selecting == entry.selecting }
        parts[key]?.removeAll { $0.selecting == entry.selecting }
    }

    // MARK: Removing

    mutating func invalidate(_ url: String) {
        removals[counter(url), default: 0] += 1
        guard let uri = SimulatedTraffic.paths.firstIndex(of: url) else { return }
        for key in memory.keys where key.uri == uri { memory[key] = nil }
        for key in parts.keys where key.uri == uri { parts[key] = nil }
        removeFromDisk { $0.uri == uri }
    }

    /// A purge: responses in transit are not stored either, whatever their URI.
    mutating func purge(_ fits: (Key, ModelEntry) -> Bool) {
        for url in SimulatedTraffic.paths { removals[counter(url), default: 0] += 1 }
        for key in memory.keys { memory[key]?.removeAll { fits(key, $0) } }
        for key in parts.keys { parts[key]?.removeAll { fits(key, $0) } }
        for key in disk.keys { removeFromDisk(key) { fits(key, $0) } }
    }

    /// The process has died.
    mutating func crash() {
        memory = [:]
        parts = [:]
        removals = [:]
    }

    private mutating func removeFromDisk(_ fits: (Key) -> Bool) {
        for key in disk.keys where fits(key) { removeFromDisk(key) { _ in true } }
    }

    private mutating func removeFromDisk(_ key: Key, _ fits: (ModelEntry) -> Bool) {
        for entry in disk[key] ?? [] where fits(entry) {
            if let file = entry.file { files.remove(file) }
        }
        disk[key]?.removeAll(where: fits)
    }
}

/// The model of requests that wait for the response to another one.
struct ModelFlights {
    enum Ending { case stored, notForOthers, failed, abandoned }
    enum Wake { case lookUp, goAlone, lead }
    enum Joining { case lead, goAlone, wait }

    private struct Flight {
        var leader: Int
        var followers: [(number: Int, deadline: UInt64, removals: Int)] = []
        /// The response that is being received, and the removals of its URI when it was requested.
        var offer: (entry: ModelEntry, removals: Int)?
    }

    static let patience: UInt64 = 5_000_000_000
    static let memory: UInt64 = 120_000_000_000
    private var flights: [ModelStore.Key: Flight] = [:]
    private var separate: [ModelStore.Key: UInt64] = [:]

    mutating func join(_ number: Int, _ key: ModelStore.Key, now: UInt64, removals: Int) -> Joining {
        if let until = separate[key], now < until { return .goAlone }
        separate[key] = nil
        guard flights[key] != nil else {
            flights[key] = Flight(leader: number)
            return .lead
        }
        flights[key]?.followers.append((number, now + Self.patience, removals))
        return .wait
    }

    /// For a background revalidation, which other requests' answers do not keep from leading.
    mutating func lead(_ number: Int, _ key: ModelStore.Key) -> Bool {
        guard flights[key] == nil else { return false }
        flights[key] = Flight(leader: number)
        return true
    }

    /// The response that can be read along.
    enum Offer { case none, outdated, entry(ModelEntry) }

    func offer(for key: ModelStore.Key, removals: Int) -> Offer {
        guard let offer = flights[key]?.offer else { return .none }
        return offer.removals == removals ? .entry(offer.entry) : .outdated
    }

    /// - Returns: the followers, which wait no longer, and whether the response is for them: not after a later removal;
    ///   nil when this is not the leader.
    mutating func offer(
        _ entry: ModelEntry,
        removals: Int,
        by number: Int,
        _ key: ModelStore.Key
    ) -> [(number: Int, isForIt: Bool)]? {
        guard flights[key]?.leader == number else { return nil }
        flights[key]?.offer = (entry, removals)
        let followers = flights[key]?.followers.map { (number: $0.number, isForIt: $0.removals == removals) } ?? []
        flights[key]?.followers = []
        return followers
    }

    mutating func leave(_ number: Int, _ key: ModelStore.Key) {
        flights[key]?.followers.removeAll { $0.number == number }
    }

    mutating func ended(_ number: Int, _ key: ModelStore.Key, _ ending: Ending, now: UInt64) -> [(Int, Wake)] {
        guard let flight = flights[key], flight.leader == number else { return [] }
        flights[key] = nil
        if ending == .notForOthers { separate[key] = now + Self.memory }
        guard ending == .abandoned else {
            return flight.followers.map { ($0.number, ending == .stored ? .lookUp : .goAlone) }
        }
        guard let next = flight.followers.first else { return [] }
        flights[key] = Flight(leader: next.number, followers: Array(flight.followers.dropFirst()))
        return [(next.number, .lead)]
    }

    mutating func expire(now: UInt64) -> [Int] {
        var gone: [Int] = []
        for (key, flight) in flights {
            gone += flight.followers.filter { $0.deadline <= now }.map(\.number)
            flights[key]?.followers.removeAll { $0.deadline <= now }
        }
        return gone.sorted()
    }
}
