// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

let package = Package(
    name: "PinnedConnection",
    dependencies: [
        // The name holds whatever the folder of the checkout is called.
        .package(name: "pinproxy", path: "../..")
    ],
    targets: [
        .systemLibrary(name: "COpenSSLForClients", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .executableTarget(
            name: "PinnedConnection",
            dependencies: ["COpenSSLForClients", .product(name: "ServerTrust", package: "pinproxy")],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
    ]
)
