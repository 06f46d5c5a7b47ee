// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust
import StrictJSON

extension ConfigurationLoader {
    /// Reads the files of `tls` and `authentication`; faults are reported at the place that names the file.
    static func loadClients(_ read: ConfigurationReader, into parts: inout PolicyParts) {
        for tls in read.tlsFiles where parts.tlsMaterial[tls.files] == nil {
            parts.tlsMaterial[tls.files] = load(tls)
        }
        var loaded: [AuthenticationConfiguration: ClientCredentials] = [:]
        for authentication in read.authentications where loaded[authentication.configuration] == nil {
            loaded[authentication.configuration] = load(authentication)
        }
        // Under the ways that are open at a listener, whichever these are.
        for (demanded, whole) in loaded {
            for isUnixSocket in [true, false] {
                for hasCertificates in [true, false] {
                    var open = demanded
                    if isUnixSocket { open.localUsers = nil } else { open.peers = nil }
                    if !hasCertificates { open.clientCertificates = false }
                    parts.credentials[open] = ClientCredentials(open, passwords: whole.passwords, tokens: whole.tokens)
                }
            }
        }
    }

    /// Reads the file of `admin.tokenFile`.
    static func loadAdminToken(_ read: ConfigurationReader, into parts: inout PolicyParts) {
        guard let file = read.adminToken, let bytes = file.element.fileContents() else { return }
        // Every user could then do what is refused without a token, for the reason that every user can open a port.
        if FileContents.isReadableByEveryone(file.value) {
            file.element.report("every user of this machine can read the token", remedy: "chmod 640 \(file.value)")
        }
        do throws(AdminToken.Fault) {
            parts.adminToken = try AdminToken(bytes)
        } catch {
            file.element.report(error.message, remedy: error.remedy)
        }
    }

    private static func load(_ tls: TLSFiles) -> TLSMaterial? {
        let certificate = tls.certificate.fileContents()
        let key = tls.key.fileContents()
        let authorities = tls.clientCA.map { $0.fileContents() }
        var clientAuthorities: [Certificate] = []
        if let element = tls.clientCA, let bytes = authorities ?? nil {
            do throws(CertificateFault) {
                clientAuthorities = try Certificate.certificates(in: bytes)
            } catch {
                element.report(error.message, remedy: error.remedy)
                return nil
            }
        }
        let lists = DocumentElement.revocationLists(
            of: tls.crlFiles,
            at: Clock.seconds,
            effect: "the clients whose certificates it should cover are refused"
        )
        guard let certificate, let key, tls.clientCA == nil || !clientAuthorities.isEmpty,
            tls.crlFiles.isEmpty || lists != nil
        else { return nil }
        if FileContents.isReadableByEveryone(tls.files.key) {
            tls.key.warn("every user of this machine can read the private key", remedy: "chmod 600 \(tls.files.key)")
        }
        do throws(CertificateFault) {
            let identity = try ServerIdentity(certificate: certificate, privateKey: key)
            warnOfDates(identity.certificates[0], tls.certificate)
            let material = TLSMaterial(
                identity: identity,
                clientAuthorities: clientAuthorities,
                revocationLists: lists
            )
            // Settings that OpenSSL would refuse at the first connection are refused now.
            do throws(OpenSSLError) { _ = try material.context(for: nil, http2: false) } catch {
                tls.certificate.report(
                    "OpenSSL refuses certificate or key: \(error)",
                    remedy: "use an ECDSA key, or an RSA key of at least 2048 bits, with SHA-256"
                )
                return nil
            }
            return material
        } catch {
            // Reading the certificate alone shows which of the two files is at fault.
            let isKey = (try? Certificate.certificates(in: certificate)) != nil
            (isKey ? tls.key : tls.certificate).report(error.message, remedy: error.remedy)
            return nil
        }
    }

    private static func warnOfDates(_ certificate: Certificate, _ element: DocumentElement) {
        let now = Clock.seconds
        // Nil is no case here: ServerIdentity has refused it.
        guard let begin = certificate.notBefore, let end = certificate.notAfter, now > end || now < begin else {
            return
        }
        element.warn(
            now < begin ? "the certificate is not valid yet" : "the certificate has expired",
            remedy: "renew it; clients refuse it"
        )
    }

    private static func load(_ authentication: AuthenticationFiles) -> ClientCredentials? {
        let passwords = read(authentication.basic) { bytes throws(PasswordFile.Fault) in try PasswordFile(bytes) }
        let tokens = read(authentication.bearer) { bytes throws(PasswordFile.Fault) in try TokenFile(bytes) }
        if let element = authentication.localUsers, let fault = LoopbackClient.fault() {
            element.report(
                "the kernel does not say whose a connection over loopback is: \(fault)",
                remedy: "allow AF_NETLINK (systemd: RestrictAddressFamilies), load the module tcp_diag, or take it out"
            )
        }
        guard (passwords == nil) == (authentication.basic == nil), (tokens == nil) == (authentication.bearer == nil)
        else { return nil }
        return ClientCredentials(authentication.configuration, passwords: passwords, tokens: tokens)
    }

    private static func read<Value>(
        _ element: DocumentElement?,
        _ parse: ([UInt8]) throws(PasswordFile.Fault) -> Value
    ) -> Value? {
        guard let element, let bytes = element.fileContents() else { return nil }
        do throws(PasswordFile.Fault) {
            return try parse(bytes)
        } catch {
            element.report(
                error.line > 0 ? "line \(error.line): \(error.message)" : error.message,
                remedy: error.remedy
            )
            return nil
        }
    }
}
