'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const https = require('https');
const tls = require('tls');

const { BASE, CA, INNER, NAME, PROXY, SECURE, UPLOAD, WRONG } = process.env;
const proxy = new URL(PROXY);
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function ask(url, { method = 'GET', body, file } = {}) {
    return new Promise((resolve, reject) => {
        const request = http.request({
            host: proxy.hostname, port: proxy.port, method, path: url, agent,
            headers: { Host: new URL(url).host },
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

function connect(authority) {
    return new Promise((resolve, reject) => {
        const request = http.request({
            host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: authority, headers: { Host: authority },
        });
        request.on('connect', (answer, socket) => resolve({ status: answer.statusCode, socket }));
        request.on('response', (answer) => { answer.resume(); resolve({ status: answer.statusCode }); });
        request.on('error', reject);
        request.end();
    });
}

async function inside(url) {
    const { host } = new URL(url);
    const { socket } = await connect(`${host}:443`);
    return new Promise((resolve, reject) => {
        const createConnection = () => tls.connect({ socket, servername: host, ca: fs.readFileSync(CA) });
        // Without an agent Node would say :80.
        https.get(url, { createConnection, headers: { Host: host } }, (answer) => {
            let text = '';
            answer.on('data', (piece) => { text += piece; });
            answer.on('end', () => resolve(`${text} ${answer.statusCode}`));
        }).on('error', reject);
    });
}

async function main() {
    let answer = await ask(`${BASE}/hello`);
    console.log('get', answer.body.toString(), answer.status);
    answer = await ask(`${BASE}/echo`, { method: 'POST', body: 'some fields' });
    console.log('post', answer.body.toString(), answer.status);
    answer = await ask(`${BASE}/large`);
    console.log('download', crypto.createHash('sha256').update(answer.body).digest('hex'));
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
    console.log('intercept', await inside(`${INNER}/hello`));
    console.log('connect', (await connect(`${new URL(SECURE).host}:443`)).status);
    agent.destroy();
}

main();
