/* net.js - requests to firnd with the token of this browser, and its events.
 *
 * The token is kept in sessionStorage: it ends with the tab and is sent in a
 * header that no other page can make the browser send. A new tab asks the other
 * tabs of the board for it.
 *
 * The event stream is read by fetch and not by EventSource, which cannot send a
 * token. It begins behind the last event that was seen, so that nothing is
 * missed or seen twice over a lost connection. firnd writes at least every 15 s;
 * after SILENCE_S without a byte the connection counts as lost.
 */
const KEY = 'firn-token', SILENCE_S = 40, WAIT_FIRST_S = 1, WAIT_MOST_S = 20;
const channel = 'BroadcastChannel' in self ? new BroadcastChannel('firn-board') : null;

let token = sessionStorage.getItem(KEY);
export const isSignedIn = () => token !== null;
export function forgetToken() { token = null; sessionStorage.removeItem(KEY); }
function keepToken(text) { token = text; sessionStorage.setItem(KEY, text); }

export class ApiError extends Error {
  constructor(status, code, text) { super(text); this.status = status; this.code = code; }
}

async function failure(response) {
  let code = 'failed', text = `firnd answered ${response.status}`;
  try {
    const body = await response.json();
    code = body.error.code; text = body.error.text;
  } catch { /* an answer of something else, such as a proxy */ }
  return new ApiError(response.status, code, text);
}

/* One request; `body` is a text. Returns the response; fails with ApiError. */
export async function request(method, path, { body, type, headers, signal, timeout_s = 30 } = {}) {
  const timer = new AbortController();
  const handle = setTimeout(() => timer.abort(), timeout_s * 1000);
  if (signal) signal.addEventListener('abort', () => timer.abort());
  try {
    const response = await fetch(`/v1${path}`, {
      method, body, signal: timer.signal, credentials: 'omit', cache: 'no-store',
      headers: { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(type ? { 'Content-Type': type } : {}), ...headers },
    });
    if (!response.ok) throw await failure(response);
    return response;
  } finally {
    clearTimeout(handle);
  }
}
export const get = async (path, options) => (await request('GET', path, options)).json();
export const post = async (path, body = '', options = {}) => (await request('POST', path, { body, ...options })).json();

/* --- sign-in -------------------------------------------------------------- */

/* With a token that a person typed. */
export async function signInByToken(text) {
  const before = token;
  token = text.trim();
  try {
    await get('/policy');
    keepToken(token);
  } catch (error) {
    token = before;
    throw error;
  }
}
/* With the code of a link that `firn board` printed. */
export async function signInByCode(code) {
  token = null;
  const session = await post('/board/sessions', JSON.stringify({ code }), { type: 'application/json' });
  keepToken(session.token);
}
export async function signOut() {
  try { await post('/board/sign-out'); } catch { /* it has ended already */ }
  forgetToken();
}
/* Another tab of this browser may be signed in. */
export function askOtherTabs(wait_ms = 250) {
  return new Promise(resolve => {
    if (!channel || token) { resolve(token !== null); return; }
    const end = setTimeout(() => resolve(false), wait_ms);
    channel.addEventListener('message', event => {
      if (!event.data.token || token) return;
      clearTimeout(end);
      keepToken(event.data.token);
      resolve(true);
    });
    channel.postMessage({ asks: true });
  });
}
if (channel) channel.addEventListener('message', event => { if (event.data.asks && token) channel.postMessage({ token }); });

/* --- the event stream ------------------------------------------------------ */

/* Server-sent events from a stream of text; calls `take` for each. */
async function readEvents(body, take, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    text += value;
    const blocks = text.split('\n\n');
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.split('\n').find(line => line.startsWith('data: '));
      if (data) take(JSON.parse(data.slice(6)));
    }
  }
}

const sleep = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000));

/* Follows all events behind `after()`; `heard(state, error)` is told "live" or
 * "lost". Ends when the token is refused. */
export async function follow(after, take, heard) {
  let wait_s = WAIT_FIRST_S;
  for (;;) {
    const abort = new AbortController();
    let silent = 0;
    const alive = () => {
      clearTimeout(silent);
      silent = setTimeout(() => abort.abort(), SILENCE_S * 1000);
    };
    try {
      alive();
      const response = await fetch(`/v1/events?follow=1&after=${after()}`, {
        headers: { Authorization: `Bearer ${token}`, Accept: 'text/event-stream' }, signal: abort.signal, cache: 'no-store', credentials: 'omit',
      });
      if (!response.ok) throw await failure(response);
      heard('live');
      wait_s = WAIT_FIRST_S;
      await readEvents(response.body, take, alive);
      heard('lost', new Error('firnd closed the connection'));
    } catch (error) {
      heard('lost', error);
      if (error.status === 401 || error.status === 403) return;
    } finally {
      clearTimeout(silent);
    }
    await sleep(wait_s * (0.75 + Math.random() / 2));
    wait_s = Math.min(WAIT_MOST_S, wait_s * 2);
  }
}
