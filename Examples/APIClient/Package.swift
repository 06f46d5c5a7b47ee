// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

let package = Package(
    name: "APIClient",
    dependencies: [
        // The name holds whatever the folder of the checkout is called.
        .package(name: "pinproxy", path: "../..")
    ],
    targets: [
        .executableTarget(
            name: "APIClient",
            dependencies: [.product(name: "HTTPSession", package: "pinproxy")],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        )
    ]
)
