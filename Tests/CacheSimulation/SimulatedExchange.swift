// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// One request in progress: the real transaction, and its state in the model.
final class SimulatedExchange {
    enum Phase { case waiting, sharing, asked, relaying, over }

    /// The outcome of a step, for both kinds of steps.
    enum Outcome: Equatable {
        case nothing
        case response(CacheModel.Response, refreshes: Bool)
        /// Fields by lines, the members of If-None-Match in order of the alphabet.
        case forward([String])
        case timeout
        case relay(isStored: Bool)
    }

    let number: Int
    let uri: Int
    let key: ModelStore.Key
    let digest: Int
    let request: ModelRequest
    let transaction: CacheTransaction
    let machine: SimulatedMachine
    /// nil without a level that machines share.
    let level: SimulatedLevel?
    /// Whether the level was not asked yet.
    var mayShare = false
    /// What the level has given, until it is of no use any more.
    var ticket: SimulatedSharing.Ticket?
    let isBackground: Bool
    /// The phases of its stage.
    var delivery: CacheDelivery
    /// Its client has gone, and the response is received to its end.
    var isLeft = false
    /// The length of the origin's body, if the origin has given it.
    var length: Int?

    var phase = Phase.asked
    var hasWaited = false
    /// The outcome from the cache, and the expected one.
    var given: CacheTransaction.Step?
    var expected = Outcome.nothing

    var found = ModelStore.Found()
    /// Whether stored responses have to be validated if possible; later, whether they are.
    var mayValidate = false
    var validates = false
    var removals = 0
    var removalsAtLookup = 0
    /// The stored parts whose rest is requested.
    var completed: ModelEntry?
    var requestTime = 0
    /// The entry that is stored after the body.
    var entry: ModelEntry?
    var isInMemoryOnly = false
    /// The body that is to be read along.
    var promised: [UInt8] = []
    /// Others could use the response, and the length of what is stored is known.
    var isForOthers = false
    var hasKnownLength = false
    /// Others can read this one's body.
    var isOffered = false
    /// The requests that read this one's body.
    var readings: [SimulatedReading] = []
    /// The request to the origin, and its response if it was already made.
    var asked: ModelRequest
    var reply: SimulatedTraffic.Reply?
    var body = ""

    init(
        _ number: Int,
        _ uri: Int,
        _ key: ModelStore.Key,
        _ digest: Int,
        _ request: ModelRequest,
        _ transaction: CacheTransaction,
        _ machine: SimulatedMachine,
        _ level: SimulatedLevel?,
        isBackground: Bool = false
    ) {
        self.number = number
        self.uri = uri
        self.key = key
        self.digest = digest
        self.request = request
        self.transaction = transaction
        self.machine = machine
        self.level = level
        self.isBackground = isBackground
        delivery = CacheDelivery(isBackground: isBackground)
        asked = request
    }

    var text: String {
        let fields = request.fields.lines.map { "\($0.name): \($0.value)" }.joined(separator: "; ")
        let place = level == nil ? "" : " on \(machine.number)"
        return
            "#\(number)\(place) \(request.method) \(uri)/\(key.partition) policy \(digest) \(request.policy) [\(fields)]"
    }

    static func key(_ url: String, _ partition: Int) -> CacheKey {
        guard let key = CacheKey(url: url, partition: bytes(partition)) else { fatalError() }
        return key
    }

    static func bytes(_ partition: Int) -> [UInt8] { partition == 0 ? [] : [UInt8(partition)] }

    static func origin(_ uri: Int) -> String { String(SimulatedTraffic.paths[uri].split(separator: "/")[1]) }
}

extension ModelRequest {
    /// The form for the cache.
    var real: CacheRequest {
        let method: HTTPMethod =
            switch self.method {
            case "GET": .get
            case "HEAD": .head
            case "POST": .post
            case "PUT": .put
            case "DELETE": .delete
            default: .other(Array(self.method.utf8))
            }
        let policy: RequestPolicy =
            switch self.policy {
            case .protocol: .useProtocolCachePolicy
            case .reload: .reloadIgnoringLocalCacheData
            case .elseLoad: .returnCacheDataElseLoad
            case .dontLoad: .returnCacheDataDontLoad
            }
        var request = CacheRequest(method: method, fields: fields.real, policy: policy)
        request.bypasses = owner.bypasses
        request.grace = CacheGrace(
            whileRevalidating: owner.whileRevalidating,
            onErrors: owner.onErrors,
            retryAfter: owner.retryAfter
        )
        let names: [String: IgnoredDirectives] = [
            "no-cache": .noCache, "no-store": .noStore, "max-age": .maxAge, "min-fresh": .minFresh, "pragma": .pragma,
        ]
        request.ignore(IgnoredDirectives(owner.ignored.compactMap { names[$0] }))
        return request
    }
}

extension ModelFields {
    var real: HeaderFields {
        var fields = HeaderFields()
        for line in lines { fields.append(name: Array(line.name.utf8).span, value: Array(line.value.utf8).span) }
        return fields
    }

    init(_ real: HeaderFields) { self.init(real.list.map { ($0.name, $0.value) }) }

    /// The fields by lines, ignoring the order of entity tags.
    var comparable: [String] {
        var copy = self
        let tags = members("if-none-match")
        copy.lines.removeAll { $0.name == "if-none-match" }
        if !tags.isEmpty { copy.lines.append((name: "if-none-match", value: tags.sorted().joined(separator: ", "))) }
        return copy.sorted
    }
}

extension Simulation {
    static func outcome(_ step: CacheTransaction.Step) -> SimulatedExchange.Outcome {
        switch step {
        case .respond(let given), .respondWhileReceiving(let given):
            .response(response(given), refreshes: given.refreshes)
        case .forward(let fields): .forward(ModelFields(fields).comparable)
        case .gatewayTimeout: .timeout
        case .relay(let status): .relay(isStored: status.isStored)
        case .pass: .nothing
        }
    }

    /// A body that is still being received counts as empty: it is read later, as a `SimulatedReading`.
    static func response(_ given: CacheTransaction.Response) -> CacheModel.Response {
        let body: [UInt8] =
            switch given.body {
            case .growing: []
            case .memory(let bytes): Array(bytes.bytes[given.head.body])
            case .file(let body):
                [UInt8](unsafeUninitializedCapacity: given.head.body.count) { buffer, filled in
                    let count = given.head.body.count
                    filled = max(0, pread(body.descriptor, buffer.baseAddress, count, given.head.body.lowerBound))
                }
            }
        var fields = ModelFields(given.head.fields)
        fields.lines.removeAll { $0.name == "age" }
        return CacheModel.Response(
            status: given.head.status,
            age: given.head.age,
            fields: fields.sorted,
            body: String(decoding: body, as: UTF8.self)
        )
    }
}
