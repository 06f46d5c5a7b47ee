// With NODE_USE_ENV_PROXY=1, which Node knows from 22.21 and 24 on, fetch uses http_proxy. It opens a tunnel for https
// and, in some versions, for http too.
import crypto from 'node:crypto';
import fs from 'node:fs';

const { BASE, INNER, NAME, SECURE, UPLOAD, WRONG } = process.env;

let answer = await fetch(`${BASE}/hello`);
console.log('get', await answer.text(), answer.status);
answer = await fetch(`${BASE}/echo`, { method: 'POST', body: 'some fields' });
console.log('post', await answer.text(), answer.status);
answer = await fetch(`${BASE}/large`);
console.log('download', crypto.createHash('sha256').update(Buffer.from(await answer.arrayBuffer())).digest('hex'));
answer = await fetch(`${BASE}/upload`, { method: 'PUT', body: fs.readFileSync(UPLOAD) });
console.log('upload', await answer.text());
answer = await fetch(`${BASE}/redirect`);
console.log('redirect', await answer.text(), answer.status, answer.url);
answer = await fetch(`${WRONG}/hello`);
console.log('error', answer.status, (await answer.json()).error);
await (await fetch(`${BASE}/keep/${NAME}/1`)).text();
await (await fetch(`${BASE}/keep/${NAME}/2`)).text();
console.log('keep done');
answer = await fetch(`${INNER}/hello`);
console.log('intercept', await answer.text(), answer.status);
try {
    await fetch(`${SECURE}/hello`);
} catch (error) {
    console.log('connect', /403/.test(`${error.cause}`) ? 403 : `${error.cause}`);
}
