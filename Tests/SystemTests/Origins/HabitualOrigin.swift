// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// The habits of IIS and of CDNs, which no test can have here.
enum HabitualOrigin {
    static func serve(_ connection: OriginConnection) throws {
        while let head = try connection.readRequestHead() {
            if head.target == "/refuse" {
                try connection.respond("too large", status: "413", fields: ["Connection: Close"])
                return connection.readToEnd()
            }
            // IIS says it to every request with a body, whether or not the client has asked.
            if head.method == "POST" { try connection.write("HTTP/1.1 100 Continue\r\n\r\n") }
            try respond(try connection.readBody(of: head), on: connection)
        }
    }

    private static func respond(_ request: HTTPMessage, on connection: OriginConnection) throws {
        let path = request.target
        if path == "/chunked" {
            // Akamai's Connection, with a name in it that is no field of this hop alone; IIS's sizes with zeros before them, and
            // an extension and blanks behind.
            return try connection.write(
                "HTTP/1.1 200 OK\r\nServer: AkamaiGHost\r\nMime-Version: 1.0\r\n"
                    + "Connection: keep-alive, Transfer-Encoding\r\nConnection: Transfer-Encoding\r\n"
                    + "Transfer-Encoding: chunked\r\n\r\n"
                    + "00000006\r\npiece \r\n000c;x=y\r\npiece piece \r\n0  \r\n\r\n"
            )
        }
        if path == "/echo" {
            return try connection.respond(request.text, fields: ["X-Powered-By: ASP.NET", "X-Empty:"])
        }
        // Cloudflare's hints before the response, and its fields in lower case.
        try connection.write("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
        let page = Array(MatrixServer.page.utf8)
        let fields = "server: cloudflare\r\ncf-ray: 8c-FRA\r\nalt-svc: h3=\":443\"; ma=86400\r\netag: W/\"page\"\r\n"
        if request["If-None-Match"] == "W/\"page\"" {
            // Some CDNs send the length that the page would have.
            return try connection.write("HTTP/1.1 304 Not Modified\r\n\(fields)Content-Length: \(page.count)\r\n\r\n")
        }
        let status: String
        let body: [UInt8]
        var more = "Vary: Accept-Encoding\r\n"
        if let range = request["Range"]?.dropFirst(6).split(separator: "-").compactMap({ Int($0) }), range.count == 2 {
            status = "206"
            body = Array(page[range[0]...range[1]])
            more += "Content-Range: bytes \(range[0])-\(range[1])/\(page.count)\r\n"
        } else if request["Accept-Encoding"]?.contains("gzip") == true {
            status = "200 OK"
            body = gzip
            more += "Content-Encoding: gzip\r\n"
        } else {
            status = "200 OK"
            body = page
        }
        // A status line without reason phrase or even the blank before it.
        try connection.write("HTTP/1.1 \(status)\r\n\(fields)\(more)Content-Length: \(body.count)\r\n\r\n")
        if request.method != "HEAD" { try connection.write(body) }
    }

    /// "hello", compressed.
    private static let gzip: [UInt8] = [
        0x1F, 0x8B, 0x08, 0, 0, 0, 0, 0, 0, 0x03, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0, 0x86, 0xA6, 0x10, 0x36, 0x05,
        0, 0,
        0,
    ]
}
