// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc

/// The certificates at which a chain may end: an `X509_STORE`, filled once and shared by every connection. Beside them, the
/// intermediates that help to build a path to them.
///
/// - Note: `Sendable` because the store is filled in the initialiser; later lookups of issuers are guarded by the
///   store's own lock, and its reference count is atomic.
public final class TrustAnchors: @unchecked Sendable {
    /// An owned reference to an `X509_STORE`.
    let store: OpaquePointer
    /// The number of anchors.
    public let count: Int
    /// SHA-256 over the anchors and the intermediates, whatever their order: equal for equal sets.
    package let digest: [UInt8]
    let pool: CertificatePool
    /// Certificates that servers leave out. They are no anchors.
    let intermediates: CertificatePool
    private let keys: Set<PublicKeyPin>
    /// The keys of the anchors whose certificates have to satisfy the `CertificateProfile`.
    let publicKeys: Set<PublicKeyPin>

    /// Anchors from certificates: roots, or other certificates that are trusted directly (`X509_V_FLAG_PARTIAL_CHAIN`).
    ///
    /// - Parameters:
    ///   - certificates: the anchors.
    ///   - intermediates: help to build a path where a server leaves them out. They are no anchors.
    public convenience init(certificates: [Certificate], intermediates: [Certificate] = []) {
        self.init(certificates: certificates, intermediates: intermediates, publicKeys: [])
    }

    /// - Parameter publicKeys: of the anchors that are public CAs' and bound to their rules.
    init(certificates: [Certificate], intermediates: [Certificate] = [], publicKeys: Set<PublicKeyPin>) {
        guard let store = X509_STORE_new() else { fatalError("out of memory") }
        self.store = store
        count = certificates.count
        pool = CertificatePool(certificates)
        self.intermediates = intermediates.isEmpty ? .empty : CertificatePool(intermediates)
        keys = Set(certificates.map(\.publicKeyPin))
        func digest(_ certificates: [Certificate]) -> [UInt8] {
            SecretDigest.sha256(
                Set(certificates.map { SecretDigest.sha256($0.derBytes) }).sorted { $0.lexicographicallyPrecedes($1) }
                    .flatMap { $0 }
            )
        }
        var all = digest(certificates)
        if !intermediates.isEmpty { all = SecretDigest.sha256(all + digest(intermediates)) }
        if !publicKeys.isEmpty {
            let held = certificates.filter { publicKeys.contains($0.publicKeyPin) }
            all = SecretDigest.sha256(all + Array("public".utf8) + digest(held))
        }
        self.digest = all
        self.publicKeys = publicKeys
        for certificate in certificates { X509_STORE_add_cert(store, certificate.pointer) }
        // For programs that use this store in their own verifications; ours set the flag on each call.
        X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    }

    deinit { X509_STORE_free(store) }

    /// Whether an anchor has this public key.
    func holds(_ key: PublicKeyPin) -> Bool { keys.contains(key) }

    /// The anchors of the system: see `TrustAnchorLibrary`. Blocking disk I/O, some milliseconds: never on a loop.
    public static func system() throws(CertificateFault) -> TrustAnchors {
        try TrustAnchorLibrary().anchors(system: true, files: [])
    }
}

/// Makes the trust anchors of a whole configuration. It reads the system's bundle only once, and equal sets of anchors
/// share one object.
///
/// Not for several threads: each load makes its own.
public final class TrustAnchorLibrary {
    private struct Key: Hashable {
        var system: Bool
        var files: [String]
    }

    private var known: [Key: TrustAnchors] = [:]
    private var systemCertificates: [Certificate]?
    private let intermediates: [Certificate]

    /// An empty library.
    ///
    /// - Parameter intermediates: certificates that servers leave out, for all anchors that this library makes.
    public init(intermediates: [Certificate] = []) { self.intermediates = intermediates }

    /// The anchors of the system's bundle, of the files, or of both. Blocking disk I/O: never on a loop.
    ///
    /// A public CA's root of the system's bundle vouches for certificates by the rules of public CAs alone; whoever names its
    /// file trusts it without them.
    ///
    /// - Parameters:
    ///   - system: whether the system's bundle is among them.
    ///   - files: PEM or DER, paths as the process sees them.
    public func anchors(system: Bool, files: [String]) throws(CertificateFault) -> TrustAnchors {
        let key = Key(system: system, files: files)
        if let anchors = known[key] { return anchors }
        let ofSystem = system ? try loadSystem() : []
        var named: [Certificate] = []
        for file in files { named += try Certificate.certificates(file: file) }
        let anchors = TrustAnchors(
            certificates: ofSystem + named,
            intermediates: intermediates,
            publicKeys: Set(ofSystem.map(\.publicKeyPin).filter(PublicRoots.contains))
                .subtracting(named.map(\.publicKeyPin))
        )
        known[key] = anchors
        return anchors
    }

    /// Candidate paths of the system's bundle: the environment variable (`SSL_CERT_FILE`, as for every OpenSSL
    /// program), OpenSSL's built-in path, then the paths of common distributions.
    static var systemBundles: [String] {
        if let variable = getenv(X509_get_default_cert_file_env()) { return [String(cString: variable)] }
        return [
            String(cString: X509_get_default_cert_file()),
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/pki/tls/certs/ca-bundle.crt",
            "/etc/ssl/cert.pem",
        ]
    }

    /// The certificates of the system's bundle. Blocking disk I/O: never on a loop.
    package func systemBundle() throws(CertificateFault) -> [Certificate] { try loadSystem() }

    private func loadSystem() throws(CertificateFault) -> [Certificate] {
        if let systemCertificates { return systemCertificates }
        for path in TrustAnchorLibrary.systemBundles {
            guard case .success(let bytes) = FileContents.read(path, limit: 16 << 20) else { continue }
            do {
                let certificates = try Certificate.certificates(in: bytes)
                systemCertificates = certificates
                return certificates
            } catch {
                throw CertificateFault(
                    "the system's trust anchors in \(path) cannot be read: \(error.message)",
                    remedy: "repair the bundle, or set \"system\" to false and name files",
                    underlying: error.underlying
                )
            }
        }
        throw CertificateFault(
            "the system has no trust anchors (looked for \(TrustAnchorLibrary.systemBundles.joined(separator: ", ")))",
            remedy: "install the package ca-certificates, or set \"system\" to false and name files"
        )
    }
}
