// SPDX-License-Identifier: Apache-2.0
// Asks for URLs, and knows of no proxy.
for (const url of process.argv.slice(2)) {
    const response = await fetch(url);
    console.log("node", response.status, await response.text());
}
