// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

let package = Package(
    name: "OtherTypes",
    dependencies: [
        .package(name: "pinproxy", path: "../..")
    ],
    targets: [
        .target(name: "HTTPTypes"),
        .executableTarget(
            name: "OtherTypes",
            dependencies: [
                "HTTPTypes",
                .product(name: "HTTPSession", package: "pinproxy"),
                .product(name: "HTTPSessionStubs", package: "pinproxy"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
    ]
)
