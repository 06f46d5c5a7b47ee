// SPDX-License-Identifier: Apache-2.0
/// Media types by file name extension, with the names of the IANA registry: the common ones for uploads, and
/// `application/octet-stream` for all others. The table is our own, so that it is the same on every machine.
public enum MIMETypes {
    /// The type of other extensions.
    public static let unknown = "application/octet-stream"

    /// - Parameter name: a file name or a path; the extension after its last dot counts, in any case.
    public static func type(ofFileNamed name: String) -> String {
        guard let last = name.split(separator: "/", omittingEmptySubsequences: false).last,
            let dot = last.utf8.lastIndex(of: UInt8(ascii: ".")), dot > last.startIndex
        else { return unknown }
        return type(forExtension: String(last[last.utf8.index(after: dot)...]))
    }

    /// - Parameter name: without the dot, in any case.
    public static func type(forExtension name: String) -> String {
        types[name.lowercased()] ?? unknown
    }

    private static let types: [String: String] = [
        // Text.
        "txt": "text/plain", "log": "text/plain", "csv": "text/csv", "html": "text/html", "htm": "text/html",
        "css": "text/css", "js": "text/javascript", "mjs": "text/javascript", "md": "text/markdown",
        "ics": "text/calendar", "vcf": "text/vcard",
        // Structured data.
        "json": "application/json", "xml": "application/xml", "plist": "application/x-plist",
        "yaml": "application/yaml", "yml": "application/yaml", "geojson": "application/geo+json",
        "wasm": "application/wasm", "sql": "application/sql",
        // Documents.
        "pdf": "application/pdf", "rtf": "application/rtf", "epub": "application/epub+zip",
        "doc": "application/msword", "xls": "application/vnd.ms-excel", "ppt": "application/vnd.ms-powerpoint",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "odt": "application/vnd.oasis.opendocument.text",
        "ods": "application/vnd.oasis.opendocument.spreadsheet",
        "odp": "application/vnd.oasis.opendocument.presentation",
        // Archives.
        "zip": "application/zip", "gz": "application/gzip", "tgz": "application/gzip", "zst": "application/zstd",
        "tar": "application/x-tar", "7z": "application/x-7z-compressed", "bz2": "application/x-bzip2",
        "xz": "application/x-xz",
        // Images.
        "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
        "avif": "image/avif", "heic": "image/heic", "heif": "image/heif", "tif": "image/tiff", "tiff": "image/tiff",
        "bmp": "image/bmp", "svg": "image/svg+xml", "ico": "image/vnd.microsoft.icon",
        // Sound and video.
        "mp3": "audio/mpeg", "m4a": "audio/mp4", "aac": "audio/aac", "ogg": "audio/ogg", "oga": "audio/ogg",
        "opus": "audio/ogg", "flac": "audio/flac", "wav": "audio/vnd.wave", "mid": "audio/midi",
        "mp4": "video/mp4", "m4v": "video/mp4", "mov": "video/quicktime", "webm": "video/webm", "ogv": "video/ogg",
        "mpeg": "video/mpeg", "mpg": "video/mpeg", "mkv": "video/matroska", "avi": "video/vnd.avi",
        // Fonts.
        "woff": "font/woff", "woff2": "font/woff2", "ttf": "font/ttf", "otf": "font/otf",
    ]
}
