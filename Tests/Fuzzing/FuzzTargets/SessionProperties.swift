// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCore

/// The parsers of sessions: challenges, cookies, and resume data.
enum SessionProperties {
    private static let url = AbsoluteURL("https://www.example.com/a/b")
    private static let now: Int64 = 1_700_000_000

    static func all(_ bytes: [UInt8]) throws(FuzzFinding) {
        try challenges(bytes)
        try cookies(bytes)
        try resumeData(bytes)
    }

    /// The credentials for any challenge are a valid field value, with the realm and the nonce of the challenge.
    private static func challenges(_ bytes: [UInt8]) throws(FuzzFinding) {
        for challenge in HTTPChallenge.list(bytes) {
            guard let digest = DigestAuthentication(challenge),
                let response = digest.authorization(
                    user: "user\"\\",
                    password: "secret",
                    method: .get,
                    target: Array("/a?b=\"".utf8),
                    count: 1,
                    clientNonce: "c"
                )
            else { continue }
            guard HeaderFields.isValidValue(Array(response.utf8).span) else {
                throw FuzzFinding("the answer is no field value: \(response)")
            }
            let parameters = HTTPChallenge.list(Array(response.utf8)).first?.parameters ?? [:]
            guard parameters["realm"] == digest.realm, parameters["nonce"] == digest.nonce, !response.contains("secret")
            else { throw FuzzFinding("the answer is another challenge's: \(response)") }
        }
    }

    /// An accepted cookie is sent as a valid field, only to hosts that its server may set cookies for, and expires in
    /// time.
    private static func cookies(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let url, let cookie = Cookie(setCookie: bytes, from: url, at: now) else { return }
        guard HeaderFields.isValidValue(Array("\(cookie.name)=\(cookie.value)".utf8).span) else {
            throw FuzzFinding("the cookie is no field value: \(cookie)")
        }
        guard ["www.example.com", "example.com"].contains(cookie.domain.description), cookie.path.hasPrefix("/"),
            // The comparison uses bytes, because a String treats U+037E as a semicolon.
            !"\(cookie.name)\(cookie.value)".utf8.contains(UInt8(ascii: ";")),
            cookie.expires ?? 0 <= now + 400 * 86_400
        else { throw FuzzFinding("the cookie reaches too far: \(cookie)") }
    }

    /// Accepted data is equal after serialisation, and names a file in the session's folder.
    private static func resumeData(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let data = try? ResumeData(bytes) else { return }
        guard (try? ResumeData(data.bytes)) == data else { throw FuzzFinding("the resume data reads differently") }
        guard !data.fileName.contains("/"), !data.fileName.isEmpty, data.fileName != ".." else {
            throw FuzzFinding("the resume data names \(data.fileName)")
        }
    }
}
