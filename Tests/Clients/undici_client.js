// SPDX-License-Identifier: Apache-2.0
// Debian's undici: fetch with a ProxyAgent, which opens a tunnel for https and (before version 7) for http.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const { fetch, ProxyAgent } = require('undici');

const { AUTH_PROXY, BASE, CA, GATEWAY, INNER, PART, PROXY, SECURE, TLS_PROXY, UPLOAD, WRONG } = process.env;
const ca = fs.readFileSync(CA);

function through(uri, options) {
    const agent = new ProxyAgent({ uri, requestTls: { ca }, proxyTls: { ca }, ...options });
    return (url, more) => fetch(url, { dispatcher: agent, ...more });
}

const ask = through(PROXY);
const sum = (...pieces) => pieces.reduce((hash, piece) => hash.update(piece), crypto.createHash('sha256')).digest('hex');

// Version 5 does not tell with which status a CONNECT was refused.
async function refusal(url, proxy = PROXY) {
    try {
        return (await through(proxy)(url)).status;
    } catch {
        return 'refused';
    }
}

async function main() {
    let answer = await ask(`${BASE}/hello`);
    console.log('get', await answer.text(), answer.status);
    answer = await ask(`${BASE}/echo`, { method: 'POST', body: 'some fields' });
    console.log('post', await answer.text(), answer.status);
    const token = `Basic ${Buffer.from('user:password').toString('base64')}`;
    const refused = await refusal(`${BASE}/hello`, AUTH_PROXY);
    console.log('auth', refused, (await through(AUTH_PROXY, { token })(`${BASE}/hello`)).status);
    answer = await ask(`${BASE}/large`);
    console.log('download', sum(Buffer.from(await answer.arrayBuffer())));
    const part = fs.readFileSync(PART);
    answer = await ask(`${BASE}/large`, { headers: { Range: `bytes=${part.length}-` } });
    console.log('resume', sum(part, Buffer.from(await answer.arrayBuffer())));
    answer = await ask(`${BASE}/upload`, { method: 'PUT', body: fs.readFileSync(UPLOAD) });
    console.log('upload', await answer.text());
    answer = await ask(`${BASE}/redirect`);
    console.log('redirect', await answer.text(), answer.status, answer.url);
    console.log('error', await refusal(`${WRONG}/hello`));
    answer = await ask(`${INNER}/hello`);
    console.log('intercept', await answer.text(), answer.status);
    console.log('connect', await refusal(`${SECURE}/hello`));
    answer = await fetch(`${GATEWAY}/hello`);
    console.log('gateway', await answer.text(), answer.status);
    answer = await through(TLS_PROXY)(`${BASE}/hello`);
    console.log('tls', await answer.text(), answer.status);
    process.exit();
}

main();
