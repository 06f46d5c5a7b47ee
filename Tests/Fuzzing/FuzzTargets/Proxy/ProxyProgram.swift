// SPDX-License-Identifier: Apache-2.0
/// The steps that an input of the target `proxy` carries out on a proxy.
///
/// A program is a list of records, separated by the byte 0x1E. A record has an operation, its arguments of one byte
/// each, and text up to the record's end. Invalid records are skipped, so that every input is a program:
///
/// | record | what is done |
/// | --- | --- |
/// | `oKL` | client K connects to listener L |
/// | `sK…` | client K sends the text; it connects to the first listener if it is not connected |
/// | `eK`, `xK`, `cK` | client K half-closes, resets, closes |
/// | `pK`, `qK` | client K stops reading, reads again |
/// | `aM…` | the text is the response to the next request that no response is there for |
/// | `dM…` | the text is the response to every request from now on |
/// | `AJ…` | the origin sends the text on its connection J, in the order in which they were accepted |
/// | `EJ`, `XJ` | the origin half-closes, resets its connection J |
/// | `w` | the origin has another key for new connections, or its own again |
/// | `RV` | a reload; V is the variant of the configuration |
/// | `tN` | the clock goes on by the span N |
/// | `W` | threads get a little time to answer |
/// | `D` | the drain begins |
///
/// M is the event after the response: `k` none, `c` the end of the connection, `r` a reset. After each record the loop
/// runs until it is idle; a `+` before the operation limits this to one turn.
struct ProxyProgram {
    enum Operation {
        case open(client: Int, listener: Int)
        case send(client: Int, [UInt8])
        case halfClose(client: Int)
        case reset(client: Int)
        case close(client: Int)
        case setReading(client: Int, Bool)
        case respond(ScriptedResponse)
        case respondAlways(ScriptedResponse)
        case originSends(connection: Int, [UInt8])
        case originHalfCloses(connection: Int)
        case originResets(connection: Int)
        case changeKey
        case reload(variant: Int)
        case advance(milliseconds: Int)
        case wait
        case drain
    }

    struct Step {
        var operation: Operation
        /// Whether the loop runs until it is idle.
        var settles: Bool
    }

    private(set) var steps: [Step] = []

    private static let separator: UInt8 = 0x1E
    /// More would make inputs slow without new findings.
    private static let mostSteps = 64
    private static let spans = [1, 100, 1000, 3000, 5000, 11_000, 31_000, 61_000, 301_000, 601_000, 86_400_000]

    init(_ bytes: [UInt8]) {
        for record in bytes.split(separator: Self.separator) where steps.count < Self.mostSteps {
            var record = record
            let settles = record.first != UInt8(ascii: "+")
            if !settles { record.removeFirst() }
            if let operation = Self.operation(record) { steps.append(Step(operation: operation, settles: settles)) }
        }
    }

    private static func operation(_ record: ArraySlice<UInt8>) -> Operation? {
        guard let letter = record.first else { return nil }
        let rest = record.dropFirst()
        let number = rest.first.map { Int($0 & 0x0F) } ?? 0
        let text = Array(rest.dropFirst())
        switch letter {
        case UInt8(ascii: "o"): return .open(client: number, listener: Int((text.first ?? 0) & 0x0F))
        case UInt8(ascii: "s"): return .send(client: number, text)
        case UInt8(ascii: "e"): return .halfClose(client: number)
        case UInt8(ascii: "x"): return .reset(client: number)
        case UInt8(ascii: "c"): return .close(client: number)
        case UInt8(ascii: "p"): return .setReading(client: number, false)
        case UInt8(ascii: "q"): return .setReading(client: number, true)
        case UInt8(ascii: "a"): return .respond(ScriptedResponse(mark: rest.first, text))
        case UInt8(ascii: "d"): return .respondAlways(ScriptedResponse(mark: rest.first, text))
        case UInt8(ascii: "A"): return .originSends(connection: number, text)
        case UInt8(ascii: "E"): return .originHalfCloses(connection: number)
        case UInt8(ascii: "X"): return .originResets(connection: number)
        case UInt8(ascii: "w"): return .changeKey
        case UInt8(ascii: "R"): return .reload(variant: number)
        case UInt8(ascii: "t"): return .advance(milliseconds: spans[number % spans.count])
        case UInt8(ascii: "W"): return .wait
        case UInt8(ascii: "D"): return .drain
        default: return nil
        }
    }
}

/// An origin's response to any request.
struct ScriptedResponse {
    enum Ending { case stays, closes, resets }

    var bytes: [UInt8]
    var ending: Ending

    init(mark: UInt8?, _ bytes: [UInt8]) {
        self.bytes = bytes
        switch mark {
        case UInt8(ascii: "c"): ending = .closes
        case UInt8(ascii: "r"): ending = .resets
        default: ending = .stays
        }
    }
}
