// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// Writes heads. The caller writes the empty line after the fields with `appendHeadEnd`.
extension ByteBuffer {
    /// `GET /path HTTP/1.1` and CRLF. `target` must come from a parser: it is written unchanged.
    package mutating func appendRequestLine(_ method: HTTPMethod, target: borrowing Span<UInt8>) {
        method.append(to: &self)
        append(ASCII.space)
        append(target)
        append(" HTTP/1.1\r\n")
    }

    /// `HTTP/1.1 200 OK` and CRLF.
    package mutating func appendStatusLine(_ status: Int) {
        precondition(status >= 100 && status <= 999)
        switch status {
        // Nearly every line is one of these two.
        case 200: append("HTTP/1.1 200 OK\r\n")
        case 304: append("HTTP/1.1 304 Not Modified\r\n")
        default:
            append("HTTP/1.1 ")
            append(decimal: status)
            append(ASCII.space)
            append(ReasonPhrase.text(of: status))
            append("\r\n")
        }
    }

    package mutating func appendField(_ name: FieldName, _ value: StaticString) {
        append(name.text)
        append(": ")
        append(value)
        append("\r\n")
    }

    /// `value` must be a valid field value: from a parser, or composed of such values.
    package mutating func appendField(_ name: FieldName, _ value: borrowing Span<UInt8>) {
        append(name.text)
        append(": ")
        append(value)
        append("\r\n")
    }

    package mutating func appendField(_ name: FieldName, decimal value: Int) {
        append(name.text)
        append(": ")
        append(decimal: value)
        append("\r\n")
    }

    /// The empty line that ends a head.
    package mutating func appendHeadEnd() {
        append("\r\n")
    }
}

/// The reason phrase of a registered status; empty for others.
package enum ReasonPhrase {
    package static func text(of status: Int) -> StaticString {
        switch status {
        case 100: "Continue"
        case 101: "Switching Protocols"
        case 102: "Processing"
        case 103: "Early Hints"
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 203: "Non-Authoritative Information"
        case 204: "No Content"
        case 205: "Reset Content"
        case 206: "Partial Content"
        case 207: "Multi-Status"
        case 208: "Already Reported"
        case 226: "IM Used"
        case 300: "Multiple Choices"
        case 301: "Moved Permanently"
        case 302: "Found"
        case 303: "See Other"
        case 304: "Not Modified"
        case 305: "Use Proxy"
        case 307: "Temporary Redirect"
        case 308: "Permanent Redirect"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 402: "Payment Required"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 407: "Proxy Authentication Required"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 411: "Length Required"
        case 412: "Precondition Failed"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 415: "Unsupported Media Type"
        case 416: "Range Not Satisfiable"
        case 417: "Expectation Failed"
        case 421: "Misdirected Request"
        case 422: "Unprocessable Content"
        case 423: "Locked"
        case 424: "Failed Dependency"
        case 425: "Too Early"
        case 426: "Upgrade Required"
        case 428: "Precondition Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 451: "Unavailable For Legal Reasons"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        case 505: "HTTP Version Not Supported"
        case 506: "Variant Also Negotiates"
        case 507: "Insufficient Storage"
        case 508: "Loop Detected"
        case 511: "Network Authentication Required"
        default: ""
        }
    }
}
