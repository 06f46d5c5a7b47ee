// SPDX-License-Identifier: Apache-2.0
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const https = require('https');
const tls = require('tls');

const { AUTH_PROXY, BASE, CA, GATEWAY, INNER, NAME, PART, PROXY, SECURE, TLS_PROXY, UPLOAD, WRONG } = process.env;
const ca = fs.readFileSync(CA);
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function ask(url, { method = 'GET', body, file, headers = {}, through = PROXY } = {}) {
    return new Promise((resolve, reject) => {
        const proxy = new URL(through);
        const { request: start } = proxy.protocol === 'https:' ? https : http;
        const request = start({
            host: proxy.hostname, port: proxy.port, method, path: url, agent: through === PROXY ? agent : undefined, ca,
            // Else Node expects the Host's name of the proxy's certificate.
            servername: proxy.hostname,
            headers: { Host: new URL(url, through).host, ...headers },
        }, (answer) => {
            const pieces = [];
            answer.on('data', (piece) => pieces.push(piece));
            answer.on('end', () => resolve({
                status: answer.statusCode, headers: answer.headers, body: Buffer.concat(pieces),
            }));
            answer.on('error', reject);
        });
        request.on('error', reject);
        if (file) fs.createReadStream(file).pipe(request); else request.end(body);
    });
}

// A handshake and one small frame: Node's http has no more of WebSocket than its event 'upgrade'.
const offer = {
    Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version': 13,
};

function echo(answer, socket, resolve) {
    socket.write(Buffer.concat([Buffer.from([0x81, 0x85, 0, 0, 0, 0]), Buffer.from('hello')]));
    socket.once('data', (frame) => { socket.destroy(); resolve(frame.subarray(2).toString()); });
}

function upgrade(url) {
    return new Promise((resolve, reject) => {
        const { hostname, port } = new URL(PROXY);
        http.get({ host: hostname, port, path: url, headers: { Host: new URL(url).host, ...offer } })
            .on('upgrade', (answer, socket) => echo(answer, socket, resolve)).on('error', reject);
    });
}

function connect(authority) {
    return new Promise((resolve, reject) => {
        const proxy = new URL(PROXY);
        const request = http.request({
            host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: authority, headers: { Host: authority },
        });
        request.on('connect', (answer, socket) => resolve({ status: answer.statusCode, socket }));
        request.on('response', (answer) => { answer.resume(); resolve({ status: answer.statusCode }); });
        request.on('error', reject);
        request.end();
    });
}

async function inside(url, headers = {}) {
    const { host } = new URL(url);
    const { socket } = await connect(`${host}:443`);
    return new Promise((resolve, reject) => {
        const createConnection = () => tls.connect({ socket, servername: host, ca });
        // Without an agent Node would say :80.
        https.get(url, { createConnection, headers: { Host: host, ...headers } }, (answer) => {
            let text = '';
            answer.on('data', (piece) => { text += piece; });
            answer.on('end', () => resolve(`${text} ${answer.statusCode}`));
        }).on('upgrade', (answer, opened) => echo(answer, opened, resolve)).on('error', reject);
    });
}

async function main() {
    let answer = await ask(`${BASE}/hello`);
    console.log('get', answer.body.toString(), answer.status);
    answer = await ask(`${BASE}/echo`, { method: 'POST', body: 'some fields' });
    console.log('post', answer.body.toString(), answer.status);
    const login = { 'Proxy-Authorization': `Basic ${Buffer.from('user:password').toString('base64')}` };
    const refused = await ask(`${BASE}/hello`, { through: AUTH_PROXY });
    answer = await ask(`${BASE}/hello`, { through: AUTH_PROXY, headers: login });
    console.log('auth', refused.status, answer.status);
    answer = await ask(`${BASE}/large`);
    console.log('download', crypto.createHash('sha256').update(answer.body).digest('hex'));
    const part = fs.readFileSync(PART);
    answer = await ask(`${BASE}/large`, { headers: { Range: `bytes=${part.length}-` } });
    console.log('resume', crypto.createHash('sha256').update(part).update(answer.body).digest('hex'));
    // A stream has no length: the body is chunked.
    answer = await ask(`${BASE}/upload`, { method: 'PUT', file: UPLOAD });
    console.log('upload', answer.body.toString());
    answer = await ask(`${BASE}/redirect`);
    const target = answer.headers.location;
    answer = await ask(target);
    console.log('redirect', answer.body.toString(), answer.status, target);
    answer = await ask(`${WRONG}/hello`);
    console.log('error', answer.status, JSON.parse(answer.body).error);
    await ask(`${BASE}/keep/${NAME}/1`);
    await ask(`${BASE}/keep/${NAME}/2`);
    console.log('keep done');
    console.log('socket', await upgrade(`${BASE}/socket`));
    console.log('secureSocket', await inside(`${INNER}/socket`, offer));
    console.log('intercept', await inside(`${INNER}/hello`));
    console.log('connect', (await connect(`${new URL(SECURE).host}:443`)).status);
    answer = await ask('/hello', { through: GATEWAY });
    console.log('gateway', answer.body.toString(), answer.status);
    answer = await ask(`${BASE}/hello`, { through: TLS_PROXY });
    console.log('tls', answer.body.toString(), answer.status);
    agent.destroy();
}

main();
