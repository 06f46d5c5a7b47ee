// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyCore
import ServerTrust

/// What files, commands and token servers give for credentials.
enum CredentialProperties {
    private static let now: Int64 = 1_800_000_000

    /// A value is one that a field can hold, with an end that has not passed; and a refusal says nothing of the input.
    static func outputs(_ bytes: [UInt8]) throws(FuzzFinding) {
        for form in [CredentialOutput.Form.plain, .plainOrJSON, .tokenResponse, .keys] {
            let output: CredentialOutput
            do throws(CredentialFault) {
                output = try CredentialOutput(bytes, as: form, prefix: Array("Bearer ".utf8), now: now)
            } catch {
                // The texts of the program itself are short.
                guard error.message.utf8.count <= 120 else { throw FuzzFinding("a long refusal: \(error.message)") }
                continue
            }
            if let end = output.end, end <= now { throw FuzzFinding("an end that has passed: \(end)") }
            switch output.secret {
            case .token(let token):
                try check(token)
                let isPrefixed = token.bytes.hasPrefixIgnoringCase("Bearer ")
                if isPrefixed { throw FuzzFinding("a value with its prefix") }
            case .keys(let keys):
                try check(keys.identifier)
                try check(keys.secret)
                if let session = keys.session { try check(session) }
            }
        }
    }

    private static func check(_ secret: SecretBytes) throws(FuzzFinding) {
        let bytes = secret.bytes
        let isASCII = bytes.indices.allSatisfy { bytes[$0] >= 0x20 && bytes[$0] < 0x7F }
        guard bytes.count >= CredentialOutput.leastBytes, isASCII, HeaderFields.isValidValue(bytes) else {
            throw FuzzFinding("a value that no field can hold")
        }
    }
}
