// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("The user of a client's request")
final class ClientIdentityTests {
    private var identity = ClientIdentity()
    private let credentials = ClientCredentials(AuthenticationConfiguration(), passwords: nil, tokens: nil)

    private func text(_ step: ClientIdentity.Step) -> String {
        switch step {
        case .route: "route"
        case .verify: "verify"
        case .refuse(let problem): "refuse \(problem.status) \(problem.code.rawValue)"
        case .fail(let problem): "fail \(problem.status) \(problem.code.rawValue)"
        }
    }

    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    private func authenticate(isStillKnown: Bool, isIntercepted: Bool = false) -> String {
        text(identity.authenticate(isStillKnown: isStillKnown, isIntercepted: isIntercepted))
    }

    @Test("A request of a known connection is routed as its user")
    func knownConnection() {
        identity.begin(as: bytes("me"))
        #expect(authenticate(isStillKnown: true) == "route" && identity.user == bytes("me"))
        // The connection was authenticated, and not the request.
        #expect(identity.authenticated == nil)
    }

    @Test("A request of an unknown connection has to present credentials")
    func unknownConnection() {
        identity.begin(as: nil)
        for isIntercepted in [false, true] {
            #expect(authenticate(isStillKnown: false, isIntercepted: isIntercepted) == "verify")
        }
        #expect(identity.user == nil)
    }

    @Test("A user that a reload has removed presents credentials, except inside a CONNECT")
    func removedUser() {
        for (isIntercepted, step) in [(false, "verify"), (true, "fail 403 authentication_required")] {
            identity.begin(as: bytes("me"))
            #expect(authenticate(isStillKnown: false, isIntercepted: isIntercepted) == step && identity.user == nil)
        }
    }

    @Test("Verified credentials name the user of the request")
    func accepted() {
        identity.begin(as: nil)
        #expect(text(identity.conclude(.accepted(user: bytes("me")), credentials)) == "route")
        #expect(identity.user == bytes("me"))
        #expect(identity.authenticated?.name == bytes("me") && identity.authenticated?.credentials === credentials)
    }

    @Test("Refused credentials, or too many at once, lead to a response")
    func refused() {
        identity.begin(as: nil)
        #expect(text(identity.conclude(.refused, credentials)) == "refuse 403 authentication_required")
        #expect(text(identity.conclude(.busy, credentials)) == "refuse 503 limit_reached")
        #expect(identity.user == nil && identity.authenticated == nil)
    }

    @Test("Nothing of an earlier start or request remains")
    func forgotten() {
        for isNewRequest in [false, true] {
            _ = identity.conclude(.accepted(user: bytes("me")), credentials)
            if isNewRequest { identity.reset() } else { identity.begin(as: bytes("you")) }
            #expect(identity.authenticated == nil && identity.user == (isNewRequest ? nil : bytes("you")))
        }
    }

    @Test("A late refusal stays valid across a reload that keeps the secret")
    func lateVerdicts() throws {
        func tokens(_ name: String) throws -> ClientCredentials {
            let digest = String(repeating: "0", count: 64)
            let file = try TokenFile(Array("\(name):\(digest)\n".utf8))
            return ClientCredentials(AuthenticationConfiguration(), passwords: nil, tokens: file)
        }
        func passwords(_ hash: String) throws -> ClientCredentials {
            let hash = "$6$salt$" + String(repeating: hash, count: 86)
            let file = try PasswordFile(Array("me:\(hash)\n".utf8))
            return ClientCredentials(AuthenticationConfiguration(), passwords: file, tokens: nil)
        }
        let presented = PresentedCredentials.basic(user: bytes("me"), password: bytes("guess"))
        let (former, same, other) = (try passwords("a"), try passwords("a"), try passwords("b"))
        let others = try tokens("me")
        func outlives(_ verdict: ClientAuthenticator.Verdict, _ current: ClientCredentials?) -> Bool {
            ClientIdentity.outlivesReload(verdict, about: presented, former, current)
        }
        #expect(outlives(.refused, same) && !outlives(.refused, other) && !outlives(.refused, others))
        #expect(!outlives(.refused, nil), "the listener demands none any more")
        #expect(!outlives(.accepted(user: bytes("me")), same) && !outlives(.busy, same))
    }
}
