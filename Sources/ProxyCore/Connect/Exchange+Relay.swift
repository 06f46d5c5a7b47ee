import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// Where an exchange gives its client's connection to a relay: CONNECT, and Upgrade.
extension Exchange {
    // MARK: To a relay

    func startUpgrade(_ offer: UpgradeOffer, _ endpoint: Endpoint, _ generation: Generation) {
        let usual: UInt16 = endpoint.scheme == .https ? 443 : 80
        let name = endpoint.host.authorityText
        var fields = clientFields()
        route?.hooks?.headers.request.apply(to: &fields)
        let request = offer.request(
            head,
            authority: endpoint.port == usual ? name : "\(name):\(endpoint.port)",
            fields: fields
        )
        let upgrade = ProtocolUpgrade(self, stream, to: endpoint, offer: offer, request: request)
        relay = upgrade
        upgrade.dial(generation.manager, endpoint.scheme == .https ? [.http1] : [])
    }

    func startInterception(_ endpoint: Endpoint, _ generation: Generation) {
        guard mayConnect() else { return }
        do throws(LeafContexts.Refusal) {
            guard let leaves = generation.leaves else { throw LeafContexts.Refusal(reason: "there is none") }
            let context = try leaves.context(for: endpoint.host, at: startedWall / 1_000_000)
            let interception = Interception(self, stream, to: endpoint, context: context)
            relay = interception
            interception.dial(generation.manager, endpoint.httpVersion == .http2 ? [.http2, .http1] : [.http1])
        } catch {
            refuse(
                Problem(
                    .connectDenied,
                    "The local CA cannot stand in for \(endpoint.host): \(error.reason). Make one that takes the host in (pinproxy ca init)."
                ),
                keepAlive: canPersist
            )
        }
    }

    /// Whether a CONNECT is one that can be had; it is refused otherwise.
    private func mayConnect() -> Bool {
        guard !head.framing.hasBody else {
            refuse(Problem(.requestInvalid, "A CONNECT has no body."), keepAlive: false)
            return false
        }
        guard stream.canHandOver else {
            refuse(
                Problem(.connectDenied, "No tunnels are made in HTTP/2. Send the CONNECT in HTTP/1.1."),
                keepAlive: true
            )
            return false
        }
        return true
    }

    func startTunnel(_ endpoint: Endpoint, _ generation: Generation) {
        guard mayConnect() else { return }
        let tunnel = Tunnel(self, stream, to: endpoint, headTime: generation.headTime)
        relay = tunnel
        tunnel.dial(generation.manager)
    }

    // MARK: From the relay

    /// The relay's connection stands, and the client's is the relay's from now on.
    func writeConnectionEstablished(_ output: inout ByteBuffer) {
        clientResponse.writeConnected(to: &output, date: worker.httpDate)
    }

    /// The origin switches protocols, and the client's connection is the relay's from now on.
    func writeProtocolSwitch(_ response: borrowing ResponseHead, _ output: inout ByteBuffer) {
        guard let context, let route else { return }
        guard let rules = route.hooks else {
            return clientResponse.writeSwitchingProtocols(response, context: context, output: &output)
        }
        let changed = ExchangeHooks(rules, route: route, deadline: nil).changed(response)
        clientResponse.writeSwitchingProtocols(changed, context: context, output: &output)
    }

    /// The origin answers an offer to switch protocols like any request. The host's rules for answers hold, but for what
    /// follows and keeps: a redirect is the client's to follow, and no file is made.
    ///
    /// - Returns: why the client gets an error instead.
    func deliverUnswitched(_ response: borrowing ResponseHead) -> Problem? {
        guard !isOver, let context, let route else { return nil }
        guard let rules = route.hooks else {
            deliver(response, context)
            return nil
        }
        let hooks = ExchangeHooks(rules, route: route, deadline: nil)
        let decision = hooks.decide(response, to: head, body: .none, router: worker.generation.router)
        if case .refuse(let problem) = decision { return problem }
        switch ResponseHook.decide(response, rules) {
        case .cancel(let problem): return problem
        case .allow(let limit) where limit == Int.max || response.contentLength != nil || !response.framing.hasBody:
            break
        case .allow, .becomeDownload:
            return Problem(
                .responseDenied,
                "The answer to an offer to switch protocols would become a file, or has no length that could be held against a limit."
            )
        }
        deliver(hooks.changed(response), context)
        return nil
    }

    /// The relay's connection has carried an ordinary answer, whole.
    func relayDidCompleteResponse() {
        guard !isOver else { return }
        clientResponse.writeEnd(output: &stream.output)
        finish(nil)
        stream.finished(self, persists: false, isWhole: true)
    }

    func countRelayedBytes(fromClient: Int = 0, toClient: Int = 0) {
        bytesFromClient += fromClient
        bytesToClient += toClient
    }

    /// The relay did not come about: the client still speaks HTTP.
    func relayDidFail(_ error: SessionError, at endpoint: Endpoint) {
        // A server that was refused puts the origin in doubt, whatever the request was.
        if error.originFailure == .untrusted { worker.cache?.doubt(endpoint.origin) }
        guard !isOver else { return }
        if error.code == .sessionInvalidated { return restart() }
        if clientResponse.hasBegun { fail(Problem(error)) } else { refuse(Problem(error), keepAlive: canPersist) }
    }

    /// The same, for a reason of our own.
    func relayDidRefuse(_ problem: Problem) {
        guard !isOver else { return }
        refuse(problem, keepAlive: false)
    }

    /// The relay is over. The exchange is free for another request then.
    func relayDidEnd(_ problem: Problem?) {
        guard !isOver else { return }
        finish(problem)
        worker.returnExchange(self)
    }
}
