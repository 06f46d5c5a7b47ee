// SPDX-License-Identifier: Apache-2.0
import ServerTrust

/// The JSON Schemas of the files that commands write, for editors.
enum FileSchema: String {
    case configuration = "config"
    case pinFile = "pin-file"

    /// Where `make install` and the packages put the schemas.
    private static let folders = ["/usr/share/pinproxy/schema", "/usr/local/share/pinproxy/schema"]

    /// The value of `$schema`: the installed file, which an editor can open, else the schema's own name (`$id`).
    var reference: String {
        let files = Self.folders.map { "\($0)/\(rawValue).schema.json" }
        return files.first { !FileContents.isMissing($0) }.map { "file://\($0)" } ?? identifier
    }

    /// The `$id` of the schema.
    var identifier: String { "urn:pinproxy:schema:\(rawValue)" }

    /// The member of a file's outermost object.
    var member: String { "\"$schema\": \"\(reference)\"" }
}
