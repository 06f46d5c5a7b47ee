// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Fields for servers that have proved enough")
struct GuardedFieldsTests {
    private static let pki = TestPKI.shared

    private func fields(_ demand: GuardedFields.Demand) -> GuardedFields {
        var fields = HeaderFields()
        fields.append(.authorization, "Bearer secret-0001")
        return GuardedFields(fields, for: demand, masks: [SecretMask([SecretBytes(Array("secret-0001".utf8))])])
    }

    private func evaluation(_ policy: SecurityPolicy, of server: TestServer? = nil) throws -> TrustEvaluation {
        let server = try server ?? Self.pki.server("a.example")
        return policy.evaluate(
            chain: server.chain,
            host: try Host("a.example"),
            anchors: Self.pki.anchors,
            at: nil
        )
    }

    @Test("a matching pin is enough, no TLS never, no pin where that is allowed")
    func verdicts() throws {
        let server = try Self.pki.server("a.example")
        let pinned = try SecurityPolicy.pinning(server.pin).evaluate(
            chain: server.chain,
            host: try Host("a.example"),
            anchors: Self.pki.anchors,
            at: nil
        )
        let unpinned = try evaluation(.unpinned)
        #expect(pinned.verdict == .pass && unpinned.verdict == .notPinned)
        for (demand, mayGo) in [
            (GuardedFields.Demand.pin, [true, false, false]), (.pinIfAny, [true, true, false]),
            (.never, [false, false, false]), (.nothing, [true, true, true]),
        ] {
            let guarded = fields(demand)
            #expect([pinned, unpinned, nil].map { guarded.mayGo(under: $0) } == mayGo)
        }
    }

    @Test("only a matched pin is enough, and no pin where that is allowed")
    func everyVerdict() throws {
        var configuration = SecurityPolicy.Configuration()
        configuration.validatesDomainName = false
        let unverified = try SecurityPolicy(configuration)
        configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .publicKey
        configuration.pins = [Pin(.unrelated(1)), Pin(.unrelated(2))]
        let refused = try SecurityPolicy(configuration)
        configuration.onExpiration = .unpinned
        configuration.expiration = CalendarDate("2020-01-01")
        let expired = try SecurityPolicy(configuration)
        configuration.expiration = nil
        configuration.enforcePinning = false
        let reported = try SecurityPolicy(configuration)
        let server = try Self.pki.server("a.example")
        let pinned = try SecurityPolicy.pinning(server.pin)
        var seen: Set<TrustEvaluation.Verdict> = []
        for policy in [pinned, .unpinned, reported, unverified, expired, refused] {
            let found = try evaluation(policy, of: server)
            seen.insert(found.verdict)
            #expect(fields(.pin).mayGo(under: found) == (found.verdict == .pass), "\(found.verdict)")
            let isEnough = found.verdict == .pass || found.verdict == .notPinned
            #expect(fields(.pinIfAny).mayGo(under: found) == isEnough, "\(found.verdict)")
            #expect(!fields(.never).mayGo(under: found), "\(found.verdict)")
        }
        #expect(seen == Set(TrustEvaluation.Verdict.allCases))
    }

    @Test("a connection that a client has authenticated gets none, however well it is pinned")
    func owned() throws {
        let server = try Self.pki.server("a.example")
        let pinned = try evaluation(.pinning(server.pin), of: server)
        let endpoint = Endpoint(
            scheme: .https,
            host: try Host("a.example"),
            port: 443,
            policy: .unpinned,
            anchors: Self.pki.anchors
        )
        for demand in [GuardedFields.Demand.pin, .pinIfAny, .never, .nothing] {
            for found in [pinned, nil] {
                let guarded = fields(demand)
                let alone = guarded.refusal(of: endpoint, on: found, isOwned: false)
                #expect((alone == nil) == guarded.mayGo(under: found))
                #expect(alone?.code == (alone == nil ? nil : .credentialWithheld))
                let owned = guarded.refusal(of: endpoint, on: found, isOwned: true)
                #expect((owned == nil) == (demand == .nothing), "masks alone may go anywhere")
                if demand == .pin, found != nil { #expect(owned?.details.contains("has authenticated it") == true) }
            }
        }
    }

    @Test("a value in a head is masked; other heads are not copied")
    func masks() {
        var head = ResponseHead()
        head.changeFields { $0.append(name: Array("X-Echo".utf8).span, value: Array("a secret-0001 b".utf8).span) }
        let masked = fields(.pin).masked(head)
        #expect(masked?.fields.value(for: "x-echo") == "a *********** b")
        head.changeFields { $0.removeAll() }
        #expect(fields(.pin).masked(head) == nil)
    }

    @Test("a value in the details of an error is masked, and its code stays")
    func errors() {
        let error = SessionError(.responseInvalid, "a line has x-secret-0001, which is – no field")
        let masked = fields(.pin).masked(error)
        #expect(masked.details == "a line has x-***********, which is – no field" && masked.code == .responseInvalid)
        let other = SessionError(.responseInvalid, "another line")
        #expect(fields(.pin).masked(other).details == other.details)
        #expect(fields(.pin).masksAlone.masked(error).details == masked.details)
    }
}
