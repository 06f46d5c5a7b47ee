// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON

extension ConfigurationReader {
    mutating func readInterception(_ object: DocumentObject) {
        comment(object)
        let certificate = object.required("certificate")
        let key = object.required("key")
        object.finish()
        guard let certificate, let key, let certificatePath = certificate.path(), let keyPath = key.path() else {
            return
        }
        configuration.interception = InterceptionConfiguration(certificate: certificatePath, key: keyPath)
        interception = InterceptionFiles(certificate: certificate, key: key)
    }
}

extension ConfigurationLoader {
    /// Reads the local CA, and checks that it covers the hosts to be intercepted.
    static func loadAuthority(_ read: ConfigurationReader, into parts: inout PolicyParts) {
        let hosts = read.intercepted
        guard let files = read.interception else {
            for host in hosts where read.configuration.interception == nil {
                host.element.report(
                    "interception needs a local CA",
                    remedy:
                        "add \"interception\": { \"certificate\": …, \"key\": … }, and make them: pinproxy ca init --config FILE"
                )
            }
            return
        }
        guard let authority = load(files) else { return }
        parts.authority = authority
        let now = Clock.seconds
        for host in hosts {
            // `defaults` name no host; each CONNECT is checked by itself.
            guard let name = host.value.host else { continue }
            guard let objection = try? authority.objection(to: name, at: now) else { continue }
            host.element.report(
                "clients would refuse the local CA's certificate for \(name): \(objection)",
                remedy: "make a CA that takes the host in: move the files away, then pinproxy ca init --config FILE"
            )
        }
    }

    private static func load(_ files: InterceptionFiles) -> LocalAuthority? {
        let remedy = "make the local CA, certificate and key: pinproxy ca init --config FILE"
        let certificate = files.certificate.fileContents(remedyIfMissing: remedy)
        let key = files.key.fileContents(remedyIfMissing: remedy)
        guard let certificate, let key else { return nil }
        if let path = files.key.string(), FileContents.isReadableByEveryone(files.key.reader.resolve(path: path)) {
            files.key.report("every user of this machine can read the local CA's key", remedy: "chmod 600 \(path)")
        }
        do throws(CertificateFault) {
            let authority = try LocalAuthority(certificate: certificate, privateKey: key)
            // Nil is no case here: LocalAuthority has refused it.
            let now = Clock.seconds
            if (authority.certificate.notAfter ?? .min) <= now {
                files.certificate.report("the local CA has expired", remedy: "make another: pinproxy ca init")
            } else if let near = Expiry.certificate(authority.certificate, at: now) {
                files.certificate.warn(
                    "the local CA expires in \(near.days) days",
                    remedy: "make another, and install it beside this one: pinproxy ca init"
                )
            }
            if authority.certificate.permittedNames.isEmpty {
                files.certificate.warn(
                    "the local CA may sign for any host",
                    remedy: "make one that is bound to the hosts to be intercepted: pinproxy ca init"
                )
            } else if !authority.certificate.isBoundToServers {
                files.certificate.warn(
                    "the local CA may sign for more than TLS servers: client and mail certificates of its key are valid "
                        + "to programs that trust it",
                    remedy:
                        "make another (move the files away, then pinproxy ca init --config FILE), and have clients trust it "
                        + "in the place of this one"
                )
            }
            return authority
        } catch {
            let isKey = (try? Certificate.certificates(in: certificate)).map { $0.count == 1 && $0[0].isCA } ?? false
            (isKey ? files.key : files.certificate).report(error.message, remedy: error.remedy)
            return nil
        }
    }
}
