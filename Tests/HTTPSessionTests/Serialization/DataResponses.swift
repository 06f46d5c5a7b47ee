// SPDX-License-Identifier: Apache-2.0
@testable import HTTPCore
@testable import HTTPSessionCore
@testable import SessionCore

/// An answer as the session would hand it over.
func dataResponse(
    _ text: String = "",
    status: Int = 200,
    type: String? = nil,
    fields: [(String, String)] = []
) -> DataResponse {
    dataResponse(Array(text.utf8), status: status, type: type, fields: fields)
}

func dataResponse(
    _ bytes: [UInt8],
    status: Int = 200,
    type: String? = nil,
    fields: [(String, String)] = []
) -> DataResponse {
    var head = ResponseHead()
    head.status = status
    if let type { try! head.fields.append(name: "Content-Type", value: type) }
    for (name, value) in fields { try! head.fields.append(name: name, value: value) }
    return DataResponse(response: head, data: bytes)
}

extension RequestBody {
    /// The bytes of a body that is there as a whole.
    var text: String? {
        if case .bytes(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil }
    }
}
