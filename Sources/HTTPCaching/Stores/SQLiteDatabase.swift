// SPDX-License-Identifier: Apache-2.0
import CSQLite
import IOCore

/// An error of SQLite.
struct SQLiteFailure: Error, CustomStringConvertible {
    /// The primary result code.
    let code: Int32
    let description: String

    /// Whether the file is no database, is corrupt, or is not the index that this program made: a new one is made. The
    /// statements are constants, so one that is wrong, or that violates a constraint, says so of the file.
    var isCorruption: Bool {
        switch code {
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_FORMAT, SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH: true
        default: false
        }
    }
    var isFull: Bool { code == SQLITE_FULL }
}

/// A connection to one database file, for one thread at a time. It owns the handle.
final class SQLiteDatabase {
    private let handle: OpaquePointer

    init(path: String) throws(SQLiteFailure) {
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        let code = sqlite3_open_v2(path, &opened, flags, nil)
        guard code == SQLITE_OK, let opened else {
            let message = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            sqlite3_close_v2(opened)
            throw SQLiteFailure(code: code & 0xFF, description: message)
        }
        handle = opened
    }

    /// Statements that still exist keep the handle open until they are freed.
    deinit { sqlite3_close_v2(handle) }

    func run(_ sql: String) throws(SQLiteFailure) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw failure(code) }
    }

    func prepare(_ sql: String) throws(SQLiteFailure) -> SQLiteStatement {
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        guard code == SQLITE_OK, let statement else { throw failure(code) }
        return SQLiteStatement(statement, of: self)
    }

    /// The number of rows that the last statement changed.
    var changes: Int { Int(sqlite3_changes(handle)) }

    var lastRow: Int64 { sqlite3_last_insert_rowid(handle) }

    fileprivate func failure(_ code: Int32) -> SQLiteFailure {
        SQLiteFailure(code: code & 0xFF, description: String(cString: sqlite3_errmsg(handle)))
    }
}

/// A prepared statement, reused by the thread of its database. It owns the handle.
final class SQLiteStatement {
    private let handle: OpaquePointer
    private let database: SQLiteDatabase

    fileprivate init(_ handle: OpaquePointer, of database: SQLiteDatabase) {
        self.handle = handle
        self.database = database
    }

    deinit { sqlite3_finalize(handle) }

    enum Value {
        case integer(Int64)
        case bytes([UInt8])
        case null
    }

    /// Resets it for another run, and binds its parameters.
    func bind(_ values: Value...) throws(SQLiteFailure) {
        sqlite3_reset(handle)
        for (index, value) in values.enumerated() {
            let column = Int32(index + 1)
            let code: Int32
            switch value {
            case .integer(let number): code = sqlite3_bind_int64(handle, column, number)
            case .null: code = sqlite3_bind_null(handle, column)
            case .bytes(let bytes):
                // SQLite copies the bytes; without this an empty blob would be NULL.
                code =
                    bytes.isEmpty
                    ? sqlite3_bind_zeroblob(handle, column, 0)
                    : sqlite3_bind_blob(handle, column, bytes, Int32(bytes.count), Self.copied)
            }
            guard code == SQLITE_OK else { throw database.failure(code) }
        }
    }

    /// SQLITE_TRANSIENT, a macro with a cast, which Swift cannot import.
    private static let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    /// Steps to the next row.
    ///
    /// - Returns: false after the last row; the statement can be bound again then.
    func step() throws(SQLiteFailure) -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        let failure = code == SQLITE_DONE ? nil : database.failure(code)
        sqlite3_reset(handle)
        if let failure { throw failure }
        return false
    }

    /// Runs it to its end.
    func run() throws(SQLiteFailure) {
        while try step() {}
    }

    /// Releases the row, and the read lock with it.
    func reset() { sqlite3_reset(handle) }

    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    func bytes(_ column: Int32) -> [UInt8] {
        guard let pointer = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: pointer, count: Int(sqlite3_column_bytes(handle, column))))
    }
}
