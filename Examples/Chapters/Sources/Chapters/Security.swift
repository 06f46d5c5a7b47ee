// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import ServerTrust
import SessionCore

func securedSession(_ certificates: [Certificate]) throws -> HTTPSessionManager {
    let evaluators: [String: any ServerTrustEvaluating] = [
        "test.example.com": try PinnedCertificatesTrustEvaluator(certificates: certificates),
        "insecure.expired-apis.com": DisabledTrustEvaluator(),
    ]
    let trust = try SessionTrust(
        anchors: .system(),
        serverTrustManager: ServerTrustManager(allHostsMustBeEvaluated: false, evaluators: evaluators)
    )
    return try HTTPSessionManager(serverTrust: trust)
}
