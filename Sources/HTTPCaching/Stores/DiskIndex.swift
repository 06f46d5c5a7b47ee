// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The index of a disk store, with the small bodies, in one SQLite database. For one thread; every member blocks on the
/// disk.
///
/// In WAL mode with `synchronous = NORMAL`: a transaction is one write without a sync. A crash of the process or the
/// machine leaves a consistent database that may lack the last transactions. Bodies are not synced either; their
/// checksums reveal damage by a crash of the machine.
final class DiskIndex {
    /// A row of the index, with its entry.
    struct Found {
        var row: Int64
        var entry: CachedEntry
        var seal: RowSeal
    }

    /// The body that an insertion stores.
    enum Body {
        case small([UInt8])
        case file(StoredFile)

        var length: Int {
            switch self {
            case .small(let bytes): bytes.count
            case .file(let file): file.length
            }
        }
    }

    private static let version = 1
    /// The cost of a row besides head and body, in bytes.
    private static let overhead = 512
    /// An upper limit for numbers from the file, in bytes.
    private static let mostBytes = 1 << 60

    private let database: SQLiteDatabase
    private let folder: DiskFolder
    private let options: CacheOptions
    /// The cost of all rows and their bodies, in bytes.
    private let capacity: Int
    /// The random seed of the keys' hashes, stored with the rows.
    let seed: UInt64
    /// Rows that were used since their last turn for eviction: they get another turn. The set is lost with the process,
    /// which affects only the order of eviction.
    private var used: Set<Int64> = []
    private(set) var evictions = 0
    /// The filter of the rows' hashes. It includes rows up to `countedUpTo`, and those after `rowsToCount`.
    private(set) var filter: CountingBloomFilter
    private var countedUpTo: Int64 = 0
    private var rowsToCount: Int64 = 0
    /// The hashes of the rows that the current transaction deletes.
    private var deletedHashes: [UInt64] = []

    private let select: SQLiteStatement
    private let selectSmall: SQLiteStatement
    private let insertRow: SQLiteStatement
    private let insertSmall: SQLiteStatement
    private let insertTag: SQLiteStatement
    private let updateHead: SQLiteStatement
    private let touch: SQLiteStatement
    private let deleteRow: SQLiteStatement
    private let oldest: SQLiteStatement
    private let total: SQLiteStatement
    private let hasFile: SQLiteStatement
    private let fileOfRow: SQLiteStatement
    private let hashOfRow: SQLiteStatement

    private static let schema = """
        CREATE TABLE setting (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE entry (
            id INTEGER PRIMARY KEY, hash INTEGER NOT NULL, uri BLOB NOT NULL, part BLOB NOT NULL,
            host BLOB NOT NULL, head BLOB NOT NULL, file INTEGER, length INTEGER NOT NULL,
            checksum INTEGER NOT NULL, cost INTEGER NOT NULL, turn INTEGER NOT NULL
        );
        CREATE INDEX entry_hash ON entry (hash);
        CREATE INDEX entry_turn ON entry (turn);
        CREATE INDEX entry_host ON entry (host);
        CREATE UNIQUE INDEX entry_file ON entry (file) WHERE file IS NOT NULL;
        CREATE TABLE small (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
        CREATE TABLE tag (tag BLOB NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (tag, id)) WITHOUT ROWID;
        CREATE INDEX tag_id ON tag (id);
        CREATE TABLE total (entries INTEGER NOT NULL, cost INTEGER NOT NULL, turn INTEGER NOT NULL);
        INSERT INTO total VALUES (0, 0, 0);
        CREATE TRIGGER entry_inserted AFTER INSERT ON entry BEGIN
            UPDATE total SET entries = entries + 1, cost = cost + new.cost, turn = turn + 1;
        END;
        CREATE TRIGGER entry_updated AFTER UPDATE OF cost ON entry BEGIN
            UPDATE total SET cost = cost + new.cost - old.cost;
        END;
        CREATE TRIGGER entry_deleted AFTER DELETE ON entry BEGIN
            UPDATE total SET entries = entries - 1, cost = cost - old.cost;
            DELETE FROM small WHERE id = old.id;
            DELETE FROM tag WHERE id = old.id;
        END;
        """

    init(_ folder: DiskFolder, capacity: Int, _ options: CacheOptions) throws(SQLiteFailure) {
        self.folder = folder
        self.capacity = capacity
        self.options = options
        let database = try SQLiteDatabase(path: folder.index)
        // The exclusive mode has to be set first, so that the WAL needs no shared memory.
        try database.run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        try database.run("PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 8388608")
        try Self.prepareSchema(database)
        seed = try Self.readSeed(database)
        self.database = database
        select = try database.prepare("SELECT \(Self.columns), id FROM entry WHERE hash = ?")
        selectSmall = try database.prepare("SELECT bytes FROM small WHERE id = ?")
        insertRow = try database.prepare(
            """
            INSERT INTO entry (hash, uri, part, host, head, file, length, checksum, cost, turn)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT turn FROM total))
            """
        )
        insertSmall = try database.prepare("INSERT INTO small VALUES (?, ?)")
        insertTag = try database.prepare("INSERT OR IGNORE INTO tag VALUES (?, ?)")
        updateHead = try database.prepare("UPDATE entry SET head = ?, cost = ? WHERE id = ?")
        touch = try database.prepare("UPDATE entry SET turn = ? WHERE id = ?")
        deleteRow = try database.prepare("DELETE FROM entry WHERE id = ?")
        oldest = try database.prepare("SELECT id, file FROM entry ORDER BY turn LIMIT 1")
        total = try database.prepare("SELECT entries, cost, turn FROM total")
        hasFile = try database.prepare("SELECT 1 FROM entry WHERE file = ?")
        fileOfRow = try database.prepare("SELECT file FROM entry WHERE id = ?")
        hashOfRow = try database.prepare("SELECT hash FROM entry WHERE id = ?")
        filter = CountingBloomFilter(entries: 0)
        try resetFilter()
    }

    private static func prepareSchema(_ database: SQLiteDatabase) throws(SQLiteFailure) {
        let statement = try database.prepare("PRAGMA user_version")
        let found = try statement.step() ? Int(statement.integer(0)) : 0
        statement.reset()
        if found == version { return }
        guard found == 0 else {
            throw SQLiteFailure(code: 26, description: "the index is of another version of this program")
        }
        let seed = Int64.random(in: .min ... .max)
        try database.run(
            """
            BEGIN IMMEDIATE; \(schema)
            INSERT INTO setting VALUES ('seed', \(seed)); PRAGMA user_version = \(version); COMMIT
            """
        )
    }

    private static func readSeed(_ database: SQLiteDatabase) throws(SQLiteFailure) -> UInt64 {
        let statement = try database.prepare("SELECT value FROM setting WHERE name = 'seed'")
        guard try statement.step() else { throw SQLiteFailure(code: 11, description: "the index has no seed") }
        defer { statement.reset() }
        return UInt64(bitPattern: statement.integer(0))
    }

    /// The first columns of what `seal`, `file` and `head` read.
    private static let columns = "uri, part, head, file, length, checksum"

    private static func seal(_ row: SQLiteStatement) -> RowSeal {
        RowSeal(
            uri: row.bytes(0),
            part: row.bytes(1),
            file: row.isNull(3) ? nil : UInt64(bitPattern: row.integer(3)),
            length: Int(row.integer(4)),
            checksum: UInt64(bitPattern: row.integer(5))
        )
    }

    /// - Returns: nil when the row was damaged.
    private func head(_ row: SQLiteStatement) -> (StoredResponse, [[UInt8]])? {
        HeadCoding.decode(row.bytes(2), Self.seal(row), options)
    }

    private func hash(_ key: CacheKey) -> Int64 { Int64(bitPattern: XXH64.hash(key.uri.span, seed: seed)) }

    /// Runs `body` in a transaction: all of its writes are stored, or none.
    private func inTransaction(_ body: () throws -> Void) throws {
        try database.run("BEGIN IMMEDIATE")
        deletedHashes = []
        do {
            try body()
            try database.run("COMMIT")
            filter.remove(deletedHashes)
        } catch {
            try? database.run("ROLLBACK")
            throw error
        }
    }

    // MARK: - The filter

    /// Starts a new filter, which is incomplete.
    private func resetFilter() throws(SQLiteFailure) {
        filter = CountingBloomFilter(entries: try totals().entries)
        countedUpTo = 0
        let last = try database.prepare("SELECT max(id) FROM entry")
        rowsToCount = try last.step() ? last.integer(0) : 0
        last.reset()
    }

    /// Adds some thousands of rows to the filter.
    ///
    /// - Returns: whether rows are left.
    func countRows() throws(SQLiteFailure) -> Bool {
        let statement = try database.prepare(
            "SELECT id, hash FROM entry WHERE id > ? AND id <= ? ORDER BY id LIMIT 5000"
        )
        try statement.bind(.integer(countedUpTo), .integer(rowsToCount))
        var hashes: [UInt64] = []
        while try statement.step() {
            countedUpTo = statement.integer(0)
            hashes.append(UInt64(bitPattern: statement.integer(1)))
        }
        filter.insert(hashes)
        guard hashes.isEmpty else { return true }
        countedUpTo = rowsToCount
        filter.complete()
        return false
    }

    /// Starts a larger filter if this one is too small for the rows.
    ///
    /// - Returns: whether a new filter was started.
    func growFilter() throws(SQLiteFailure) -> Bool {
        guard filter.isOverfull(try totals().entries) else { return false }
        try resetFilter()
        return true
    }

    // MARK: - Reading

    /// All variants of a key, with small bodies. A row with a wrong checksum is removed.
    func entries(for key: CacheKey) throws -> [Found] {
        var found: [Found] = []
        var broken: [Int64] = []
        let part = key.part
        try select.bind(.integer(hash(key)))
        while try select.step() {
            guard select.bytes(0) == key.uri, select.bytes(1) == part else { continue }
            let row = select.integer(6)
            let checksum = UInt64(bitPattern: select.integer(5))
            guard let (response, tags) = head(select) else {
                broken.append(row)
                continue
            }
            let body: CachedBody
            if select.isNull(3) {
                guard let bytes = try smallBody(row), bytes.count == select.integer(4),
                    XXH64.hash(bytes.span) == checksum
                else {
                    broken.append(row)
                    continue
                }
                body = .memory(StoredBytes(bytes))
            } else {
                let length = Int(select.integer(4))
                // The file's length is compared only when it is opened; until then the value only has to be a valid
                // length.
                guard (0...Self.mostBytes).contains(length) else {
                    broken.append(row)
                    continue
                }
                let number = UInt64(bitPattern: select.integer(3))
                body = .file(StoredFile(number: number, length: length, checksum: checksum))
            }
            let entry = CachedEntry(key: key, response: response, body: body, tags: tags)
            found.append(Found(row: row, entry: entry, seal: Self.seal(select)))
        }
        if !broken.isEmpty { try remove(rows: broken) }
        return found
    }

    private func smallBody(_ row: Int64) throws(SQLiteFailure) -> [UInt8]? {
        try selectSmall.bind(.integer(row))
        defer { selectSmall.reset() }
        return try selectSmall.step() ? selectSmall.bytes(0) : nil
    }

    func markUsed(_ row: Int64) {
        if used.count >= 1 << 20 { used.removeAll() }
        used.insert(row)
    }

    /// The number of rows, and their cost in bytes.
    func totals() throws(SQLiteFailure) -> (entries: Int, cost: Int) {
        try total.bind()
        defer { total.reset() }
        guard try total.step() else { throw SQLiteFailure(code: 11, description: "the index has no totals") }
        let (entries, cost) = (Int(total.integer(0)), Int(total.integer(1)))
        // Each entry has a cost, and no disk is larger.
        guard entries >= 0, entries <= cost, cost <= Self.mostBytes else {
            throw SQLiteFailure(code: 11, description: "the totals of the index cannot be")
        }
        return (entries, cost)
    }

    func knows(file number: UInt64) throws(SQLiteFailure) -> Bool {
        try hasFile.bind(.integer(Int64(bitPattern: number)))
        defer { hasFile.reset() }
        return try hasFile.step()
    }

    // MARK: - Writing

    /// Stores an entry, which replaces the one with the same selecting fields. A body in a file gets its name in the
    /// same step: a row without its body is never visible, and a body without its row is swept later.
    ///
    /// - Parameter isWanted: called after the key was added to the filter, so that a later removal does not consider
    ///   the key absent.
    /// - Returns: whether it was stored, because it was still wanted.
    func insert(
        _ key: CacheKey,
        _ response: StoredResponse,
        tags: [[UInt8]],
        body: Body,
        isWanted: () -> Bool
    ) throws -> Bool {
        let keyHash = UInt64(bitPattern: hash(key))
        filter.insert([keyHash])
        guard isWanted() else {
            filter.remove([keyHash])
            return false
        }
        let checksum: UInt64
        let file: UInt64?
        switch body {
        case .small(let bytes): (checksum, file) = (XXH64.hash(bytes.span), nil)
        case .file(let stored): (checksum, file) = (stored.checksum, stored.number)
        }
        let seal = RowSeal(uri: key.uri, part: key.part, file: file, length: body.length, checksum: checksum)
        let head = HeadCoding.encode(response, tags: tags, seal)
        let cost = body.length + head.count + key.uri.count * 2 + key.part.count + Self.overhead
        let variants = try entries(for: key)
        var replaced = variants.filter { $0.entry.response.selecting == response.selecting }
        // A lookup reads all variants of its key: their number is limited as in memory, and the oldest are removed.
        let others = variants.filter { $0.entry.response.selecting != response.selecting }.sorted { $0.row < $1.row }
        replaced += others.prefix(max(0, others.count + 1 - MemoryStore.variantsAtMost))
        let surplus = try surplus(beside: key)
        var gone: [UInt64] = []
        try inTransaction {
            for old in replaced {
                try delete(old.row)
                if case .file(let file) = old.entry.body { gone.append(file.number) }
            }
            for row in surplus {
                if let number = try self.file(of: row) { gone.append(number) }
                try delete(row)
            }
            gone += try makeRoom(for: cost)
            try insertRow.bind(
                .integer(hash(key)),
                .bytes(key.uri),
                .bytes(key.part),
                .bytes(Array(key.host)),
                .bytes(head),
                file.map { .integer(Int64(bitPattern: $0)) } ?? .null,
                .integer(Int64(body.length)),
                .integer(Int64(bitPattern: checksum)),
                .integer(Int64(cost))
            )
            try insertRow.run()
            let row = database.lastRow
            if case .small(let bytes) = body {
                try insertSmall.bind(.integer(row), .bytes(bytes))
                try insertSmall.run()
            }
            try insert(tags, of: row)
            if case .file(let stored) = body { try folder.publish(stored.number) }
        }
        for number in gone { folder.remove(number) }
        return true
    }

    /// The oldest rows of the URI with other values of added fields, as far as there are too many: a lookup compares all.
    private func surplus(beside key: CacheKey) throws(SQLiteFailure) -> [Int64] {
        guard !key.variant.isEmpty else { return [] }
        let part = key.part
        var rows: [Int64] = []
        try select.bind(.integer(hash(key)))
        while try select.step() {
            let other = select.bytes(1)
            // A part that begins with zero has added fields.
            if other.first == 0, other != part, select.bytes(0) == key.uri { rows.append(select.integer(6)) }
        }
        return Array(rows.sorted().prefix(max(0, rows.count + 1 - MemoryStore.fieldVariantsAtMost)))
    }

    /// Replaces the head of an entry if its row is still the one that the entry was made from. A row that replaced it
    /// since is another response, whose head must match its own body. If the new head has the selecting fields of
    /// another row, that row is removed.
    func update(_ entry: CachedEntry, by response: StoredResponse) throws {
        let key = entry.key
        let known = HeadCoding.encode(entry.response, tags: entry.tags, .none)
        let all = try entries(for: key)
        guard let old = all.first(where: { Self.isSame($0.entry, entry, known) }) else { return }
        let replaced = all.filter {
            $0.row != old.row && $0.entry.response.selecting == response.selecting
        }
        if !replaced.isEmpty { try remove(rows: replaced.map(\.row)) }
        let tags = entry.tags(after: response)
        let head = HeadCoding.encode(response, tags: tags, old.seal)
        let cost = old.entry.body.count + head.count + key.uri.count * 2 + key.part.count + Self.overhead
        try inTransaction {
            try updateHead.bind(.bytes(head), .integer(Int64(cost)), .integer(old.row))
            try updateHead.run()
            if tags != entry.tags { try insert(tags, of: old.row) }
        }
    }

    private func insert(_ tags: [[UInt8]], of row: Int64) throws(SQLiteFailure) {
        for tag in tags {
            try insertTag.bind(.bytes(tag), .integer(row))
            try insertTag.run()
        }
    }

    /// - Parameter head: the encoded head of the second one.
    private static func isSame(_ stored: CachedEntry, _ entry: CachedEntry, _ head: [UInt8]) -> Bool {
        guard HeadCoding.encode(stored.response, tags: stored.tags, .none) == head else { return false }
        switch (stored.body, entry.body) {
        case (.memory(let one), .memory(let other)): return one.bytes == other.bytes
        case (.file(let one), .file(let other)): return one == other
        case (.file(let file), .memory(let bytes)), (.memory(let bytes), .file(let file)):
            return file.length == bytes.count && file.checksum == bytes.checksum
        // Parts are in memory only.
        case (.parts, _), (_, .parts): return false
        }
    }

    private func delete(_ row: Int64) throws(SQLiteFailure) {
        if row <= countedUpTo || row > rowsToCount {
            try hashOfRow.bind(.integer(row))
            if try hashOfRow.step() { deletedHashes.append(UInt64(bitPattern: hashOfRow.integer(0))) }
            hashOfRow.reset()
        }
        try deleteRow.bind(.integer(row))
        try deleteRow.run()
        used.remove(row)
    }

    /// Evicts the rows that are due, and gives used ones another turn.
    ///
    /// - Returns: the files to remove after the commit.
    private func makeRoom(for cost: Int) throws -> [UInt64] {
        var gone: [UInt64] = []
        while true {
            let (entries, held) = try totals()
            guard held.addingSaturated(cost) > capacity, entries > 0 else { return gone }
            try oldest.bind()
            guard try oldest.step() else { return gone }
            let row = oldest.integer(0)
            let file = oldest.isNull(1) ? nil : UInt64(bitPattern: oldest.integer(1))
            oldest.reset()
            if used.remove(row) != nil {
                try database.run("UPDATE total SET turn = turn + 1")
                try touch.bind(.integer(try nextTurn()), .integer(row))
                try touch.run()
                continue
            }
            try delete(row)
            evictions += 1
            if let file { gone.append(file) }
        }
    }

    private func nextTurn() throws(SQLiteFailure) -> Int64 {
        try total.bind()
        defer { total.reset() }
        return try total.step() ? total.integer(2) : 0
    }

    /// - Returns: the number of removed rows.
    @discardableResult
    func remove(rows: [Int64]) throws -> Int {
        let files = try rows.compactMap { row in try self.file(of: row) }
        try inTransaction {
            for row in rows { try delete(row) }
        }
        for number in files { folder.remove(number) }
        return rows.count
    }

    private func file(of row: Int64) throws(SQLiteFailure) -> UInt64? {
        try fileOfRow.bind(.integer(row))
        defer { fileOfRow.reset() }
        guard try fileOfRow.step(), !fileOfRow.isNull(0) else { return nil }
        return UInt64(bitPattern: fileOfRow.integer(0))
    }

    /// Removes the row that has this body.
    func remove(file number: UInt64) throws {
        try remove(rows: try rows("SELECT id FROM entry WHERE file = ?", .integer(Int64(bitPattern: number))))
    }

    func remove(_ purge: Purge) throws -> Int { try remove(rows: try rows(of: purge)) }

    /// Ends the lifetime of the entries that `purge` names, at `now` in seconds since 1970. A row that cannot be read is
    /// removed.
    ///
    /// - Returns: the number of these entries.
    func expire(_ purge: Purge, now: Int) throws -> Int {
        let rows = try rows(of: purge)
        let select = try database.prepare("SELECT \(Self.columns), cost FROM entry WHERE id = ?")
        var broken: [Int64] = []
        try inTransaction {
            for row in rows {
                try select.bind(.integer(row))
                guard try select.step() else { continue }
                let (found, seal, length, cost) =
                    (head(select), Self.seal(select), select.bytes(2).count, select.integer(6))
                select.reset()
                guard let (stored, tags) = found else {
                    broken.append(row)
                    continue
                }
                var response = stored
                response.expire(now: now)
                let expired = HeadCoding.encode(response, tags: tags, seal)
                try updateHead.bind(
                    .bytes(expired),
                    .integer(cost.addingSaturated(Int64(expired.count - length))),
                    .integer(row)
                )
                try updateHead.run()
            }
        }
        if !broken.isEmpty { try remove(rows: broken) }
        return rows.count
    }

    private func rows(of purge: Purge) throws(SQLiteFailure) -> [Int64] {
        switch purge {
        case .everything: try rows("SELECT id FROM entry WHERE ? IS NULL", .null)
        case .uri(let key):
            try rows("SELECT id FROM entry WHERE hash = ? AND uri = ?", .integer(hash(key)), .bytes(key.uri))
        case .prefix(let key):
            try rows(
                "SELECT id FROM entry WHERE host = ?1 AND substr(uri, 1, length(?2)) = ?2",
                .bytes(Array(key.host)),
                .bytes(key.uri)
            )
        case .host(let host): try rows("SELECT id FROM entry WHERE host = ?", .bytes(Array(host.utf8)))
        case .tag(let tag): try rows("SELECT id FROM tag WHERE tag = ?", .bytes(Array(tag.utf8)))
        }
    }

    private func rows(_ sql: String, _ value: SQLiteStatement.Value, _ second: SQLiteStatement.Value? = nil)
        throws(SQLiteFailure) -> [Int64]
    {
        let statement = try database.prepare(sql)
        if let second { try statement.bind(value, second) } else { try statement.bind(value) }
        var rows: [Int64] = []
        while try statement.step() { rows.append(statement.integer(0)) }
        return rows
    }

    /// Removes a tenth of all rows, oldest first, when the disk is full.
    func shrink() throws {
        let (entries, _) = try totals()
        let statement = try database.prepare("SELECT id FROM entry ORDER BY turn LIMIT ?")
        try statement.bind(.integer(Int64(entries / 10 + 1)))
        var rows: [Int64] = []
        while try statement.step() { rows.append(statement.integer(0)) }
        try remove(rows: rows)
    }

    /// Heads of entries, the latest rows first: for operators.
    ///
    /// - Parameter host: nil for all hosts.
    func list(host: String?, atMost limit: Int) throws -> [CachedEntry] {
        let condition = host == nil ? "? IS NULL" : "host = ?"
        let statement = try database.prepare(
            "SELECT \(Self.columns) FROM entry WHERE \(condition) ORDER BY turn DESC LIMIT ?"
        )
        try statement.bind(host.map { .bytes(Array($0.utf8)) } ?? .null, .integer(Int64(limit)))
        var entries: [CachedEntry] = []
        while try statement.step() {
            guard let (response, tags) = head(statement) else { continue }
            let length = Int(statement.integer(4))
            guard (0...Self.mostBytes).contains(length) else { continue }
            let file = StoredFile(
                number: UInt64(bitPattern: statement.integer(3)),
                length: length,
                checksum: UInt64(bitPattern: statement.integer(5))
            )
            let key = CacheKey(uri: statement.bytes(0), part: statement.bytes(1))
            entries.append(CachedEntry(key: key, response: response, body: .file(file), tags: tags))
        }
        return entries
    }
}
