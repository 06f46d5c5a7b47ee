// SPDX-License-Identifier: Apache-2.0
extension SecurityPolicy {
    /// All of `expectedPins` that match in the chain of an evaluation that has passed, not only the one that decided.
    /// For statistics.
    ///
    /// - Returns: keys of the policy; one may come twice.
    package func pinsPresent(in evaluation: TrustEvaluation) -> [PublicKeyPin] {
        guard evaluation.verdict == .pass, let matched = evaluation.matchedPin else { return [] }
        var present = [matched]
        let counted = validatesDomainName ? evaluation.chain[...] : evaluation.chain.prefix(1)
        guard evaluation.isChainValidated else { return present }
        switch pinningMode {
        case .none: break
        case .publicKey:
            for (depth, certificate) in counted.enumerated() {
                for pin in pins
                where pin.key == certificate.publicKeyPin && pin.key != matched && pin.counts(at: depth) {
                    present.append(pin.key)
                }
            }
        case .certificate:
            for certificate in counted where certificate.publicKeyPin != matched {
                if pinnedCertificates.contains(where: {
                    $0.publicKeyPin == certificate.publicKeyPin && $0.isSame(as: certificate)
                }) {
                    present.append(certificate.publicKeyPin)
                }
            }
        }
        return present
    }
}
