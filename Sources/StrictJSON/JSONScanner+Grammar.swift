extension JSONScanner {
    /// The characters of literals and numbers, valid or not. They are consumed together, so that one issue covers them.
    static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }

    /// RFC 8259, section 6: `[-] int [frac] [exp]`.
    static func isNumber(_ token: ArraySlice<UInt8>) -> Bool {
        var rest = token
        func isDigit(_ byte: UInt8?) -> Bool {
            byte.map { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") } ?? false
        }
        if rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
        guard isDigit(rest.first) else { return false }
        rest = rest.first == UInt8(ascii: "0") ? rest.dropFirst() : rest.drop(while: isDigit)
        if rest.first == UInt8(ascii: ".") {
            rest = rest.dropFirst()
            guard isDigit(rest.first) else { return false }
            rest = rest.drop(while: isDigit)
        }
        if rest.first == UInt8(ascii: "e") || rest.first == UInt8(ascii: "E") {
            rest = rest.dropFirst()
            if rest.first == UInt8(ascii: "+") || rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
            guard isDigit(rest.first) else { return false }
            rest = rest.drop(while: isDigit)
        }
        return rest.isEmpty
    }
}
