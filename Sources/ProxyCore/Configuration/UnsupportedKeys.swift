import ServerTrust

/// What `config.json` will be able to say, but this version does not act on.
///
/// A key without effect would be a promise broken in silence, so each is a load error that says what to do instead. Who
/// builds a function takes its entry out of this file, and nothing else.
enum UnsupportedKeys {
    /// The objects of the configuration that have such keys.
    enum Place {
        case document
        case defaults
        case host
    }

    struct Refusal {
        var key: String
        var remedy: String
    }

    static func refusals(in place: Place) -> [Refusal] {
        switch place {
        case .document:
            [
                Refusal(key: "cache", remedy: "take it out; nothing is cached")
            ]
        case .defaults, .host:
            [Refusal(key: "cache", remedy: "take it out; nothing is cached")]
        }
    }

    /// Reports what `object` asks for in vain, where it stands, so that no message recommends it.
    static func check(_ object: DocumentObject, in place: Place) {
        let present = object.entries.map(\.name)
        for refusal in refusals(in: place) where present.contains(refusal.key) {
            guard let element = object[refusal.key] else { continue }
            report("\"\(refusal.key)\"", on: element, remedy: refusal.remedy)
        }
    }

    private static func report(_ what: String, on element: DocumentElement, remedy: String) {
        element.report("\(what) is not supported by this version", remedy: remedy)
    }
}
