// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import StrictJSON

// The configuration's requirements for clients: TLS and authentication.

extension ConfigurationReader {
    mutating func readTLS(_ element: DocumentElement) -> ListenerTLS? {
        guard let object = element.object() else { return nil }
        comment(object)
        let certificate = object.required("certificate")
        let key = object.required("key")
        let clientCA = object["clientCA"]
        let crlFiles = readClientLists(object)
        object.finish()
        let authorities = clientCA.map { $0.path() }
        guard let certificate, let key, let certificatePath = certificate.path(), let keyPath = key.path() else {
            return nil
        }
        let files = ListenerTLS(
            certificate: certificatePath,
            key: keyPath,
            clientCA: authorities ?? nil,
            crlFiles: crlFiles.compactMap { $0.path() }
        )
        tlsFiles.append(
            TLSFiles(files: files, certificate: certificate, key: key, clientCA: clientCA, crlFiles: crlFiles)
        )
        return files
    }

    /// The revocation lists for clients' certificates.
    private func readClientLists(_ object: DocumentObject) -> [DocumentElement] {
        guard let element = object["crlFiles"], let files = element.elements() else { return [] }
        if files.isEmpty {
            element.report("an empty list checks no certificate", remedy: "name the lists of clientCA, or take it out")
        } else if !object.has("clientCA") {
            element.report(
                "there are no client certificates to check",
                remedy: "name the authorities of client certificates under clientCA, or take it out"
            )
        }
        return files
    }

    mutating func readListenerAuthentication(_ element: DocumentElement) -> ListenerAuthentication {
        if case .bool(let flag) = element.value.content {
            if !flag { return .off }
            element.report(
                "\"authentication\": true names no way to authenticate",
                remedy: "write an object, as in { \"basic\": { \"file\": \"users.htpasswd\" } }, or false"
            )
            return .inherited
        }
        return readAuthentication(element).map { .own($0) } ?? .inherited
    }

    mutating func readAuthentication(_ element: DocumentElement) -> AuthenticationConfiguration? {
        guard let object = element.object() else { return nil }
        comment(object)
        var read = AuthenticationConfiguration()
        let basic = object["basic"].flatMap { secretFile($0) }
        let bearer = object["bearer"].flatMap { secretFile($0) }
        read.basicFile = basic?.path()
        read.bearerFile = bearer?.path()
        if let element = object["unixPeers"] { read.peers = readPeers(element) }
        let localUsers = object["localUsers"]
        if let localUsers { read.localUsers = readLocalUsers(localUsers) }
        read.clientCertificates = object.bool("clientCertificates") ?? false
        let ways = ["basic", "bearer", "unixPeers", "localUsers"]
        let namesNone = !ways.contains { object.has($0) } && !read.clientCertificates
        object.finish()
        if namesNone {
            element.report(
                "names no way to authenticate",
                remedy:
                    "add \"basic\", \"bearer\", \"unixPeers\", \"localUsers\" or \"clientCertificates\", or take it out"
            )
            return nil
        }
        authentications.append(
            AuthenticationFiles(configuration: read, basic: basic, bearer: bearer, localUsers: localUsers)
        )
        return read
    }

    /// `{ "file": PATH }`: the path's element.
    private func secretFile(_ element: DocumentElement) -> DocumentElement? {
        guard let object = element.object() else { return nil }
        comment(object)
        let file = object.required("file")
        object.finish()
        return file
    }

    private func readPeers(_ element: DocumentElement) -> AuthenticationConfiguration.Peers? {
        guard let object = element.object() else { return nil }
        comment(object)
        let peers = AuthenticationConfiguration.Peers(
            users: readNumbers(object, "uids"),
            groups: readNumbers(object, "gids")
        )
        object.finish()
        if peers.users.isEmpty, peers.groups.isEmpty {
            element.report("lets nobody in", remedy: "name user numbers in \"uids\" or group numbers in \"gids\"")
        }
        return peers
    }

    private func readLocalUsers(_ element: DocumentElement) -> Set<UInt32>? {
        guard let object = element.object() else { return nil }
        comment(object)
        let users = readNumbers(object, "uids")
        object.finish()
        if users.isEmpty { element.report("lets nobody in", remedy: "name user numbers in \"uids\"") }
        return users
    }

    /// The numbers of users or groups of this machine.
    private func readNumbers(_ object: DocumentObject, _ key: String) -> Set<UInt32> {
        let greatest = Int(UInt32.max) - 1
        return Set(object.elements(key)?.compactMap { $0.int(in: 0...greatest).map { UInt32($0) } } ?? [])
    }

    /// Checks listeners and authentication together.
    func checkClients() {
        for listener in listeners { checkClients(of: listener.value, listener.element) }
        // A file without listeners has no place of a listener to report at.
        if let element = globalAuthentication, !namesListeners { checkClients(of: .standard, element) }
    }

    private func checkClients(of listener: ListenerConfiguration, _ element: DocumentElement) {
        let isRemote = listener.allowRemoteClients
        guard let demanded = configuration.authentication(of: listener) else {
            // A transparent listener refuses connections that were not redirected.
            if isRemote, listener.tls?.clientCA == nil, listener.mode != .transparent {
                element.warn(
                    "whoever reaches \(listener.endpoint) can use this proxy: clients prove nothing"
                        + (listener.tls == nil ? ", and what they send can be read on its way" : ""),
                    remedy: "add \"authentication\", and \"tls\" with it; or \"tls\" with a \"clientCA\""
                )
            }
            return
        }
        guard listener.mode != .transparent else {
            element.report(
                "a client that knows of no proxy cannot say who it is",
                remedy:
                    "say \"authentication\": false here; the rules for the redirection decide whose connections come"
            )
            return
        }
        let open = listener.waysOpen(of: demanded)
        guard open.takesSecrets || open.knowsProcesses || open.clientCertificates else {
            element.report(
                "no client could authenticate here: unixPeers needs a Unix socket, localUsers an address, clientCertificates a "
                    + "\"clientCA\" in \"tls\"",
                remedy: "add \"basic\" or \"bearer\" to authentication, or say \"authentication\": false here"
            )
            return
        }
        if case .own(let own) = listener.authentication, own != open {
            let (way, remedy) =
                if own.peers != open.peers {
                    ("unixPeers", "take it out; only a Unix socket tells who connects, and localUsers for loopback")
                } else if own.localUsers != open.localUsers {
                    ("localUsers", "say unixPeers: this is a Unix socket")
                } else {
                    ("clientCertificates", "add \"clientCA\" to \"tls\", or take it out")
                }
            element.report("\"\(way)\" is of no use here", remedy: remedy)
        }
        if isRemote, listener.tls == nil, open.takesSecrets, !listener.allowCleartextCredentials {
            element.report(
                "passwords and tokens would cross the network in the clear",
                remedy: "add \"tls\", or \"allowCleartextCredentials\": true if something else protects them"
            )
        }
    }
}
