import ServerTrust

/// What `config.json` will be able to say, but this version does not act on.
///
/// A key without effect would be a promise broken in silence, so each is a load error that says what to do instead,
/// but for the one form that already holds. Who builds a function takes its entry out of this file, and nothing else.
enum UnsupportedKeys {
    /// The objects of the configuration that have such keys.
    enum Place {
        case document
        case access
        case defaults
        case host
    }

    struct Refusal {
        /// The form of the key that is true of this version.
        enum Accepted {
            case nothing
            case ports([Int])
            /// One word, and the words of later versions.
            case word(String, later: [String])
        }

        var key: String
        var accepted: Accepted
        var remedy: String
    }

    static func refusals(in place: Place) -> [Refusal] {
        switch place {
        case .document:
            [
                Refusal(key: "cache", accepted: .nothing, remedy: "take it out; nothing is cached"),
                Refusal(
                    key: "upstreamProxy",
                    accepted: .nothing,
                    remedy: "take it out; origins are connected to directly"
                ),
            ]
        case .access:
            [
                Refusal(
                    key: "connectPorts",
                    accepted: .ports([443]),
                    remedy: "take it out; every CONNECT is answered with 403"
                )
            ]
        case .defaults, .host:
            [
                Refusal(
                    key: "connect",
                    accepted: .word("deny", later: ["tunnel", "intercept"]),
                    remedy: connectRemedy
                ),
                Refusal(key: "cache", accepted: .nothing, remedy: "take it out; nothing is cached"),
                Refusal(
                    key: "upstreamProxy",
                    accepted: .nothing,
                    remedy: "take it out; origins are connected to directly"
                ),
            ]
        }
    }

    static let connectRemedy =
        "write \"deny\"; clients ask for https://… in absolute form, for http://… with \"upgrade\", or use a gateway"

    /// Reports what `object` asks for in vain. The keys that have an accepted form become known ones of the object;
    /// the others only where they stand, so that no message recommends them.
    static func check(_ object: DocumentObject, in place: Place) {
        let present = object.entries.map(\.name)
        for refusal in refusals(in: place) {
            if case .nothing = refusal.accepted, !present.contains(refusal.key) { continue }
            guard let element = object[refusal.key] else { continue }
            check(element, against: refusal)
        }
    }

    private static func check(_ element: DocumentElement, against refusal: Refusal) {
        switch refusal.accepted {
        case .nothing:
            report("\"\(refusal.key)\"", on: element, remedy: refusal.remedy)
        case .ports(let accepted):
            guard let elements = element.elements() else { return }
            let ports = elements.compactMap { $0.int(in: 1...65535) }
            guard ports.count == elements.count, ports != accepted else { return }
            report("\"\(refusal.key)\" other than \(accepted)", on: element, remedy: refusal.remedy)
        case .word(let accepted, let later):
            checkWord(element, of: refusal, accepted: accepted, later: later)
        }
    }

    private static func checkWord(_ element: DocumentElement, of refusal: Refusal, accepted: String, later: [String]) {
        guard let word = element.string(), word != accepted else { return }
        if later.contains(word) {
            report("\"\(refusal.key)\": \"\(word)\"", on: element, remedy: refusal.remedy)
        } else {
            element.report("unknown value of \"\(refusal.key)\"", remedy: refusal.remedy)
        }
    }

    private static func report(_ what: String, on element: DocumentElement, remedy: String) {
        element.report("\(what) is not supported by this version", remedy: remedy)
    }
}
