// Questions to the server behind the page.

let busy = 0;
const waiting = new Set();

/** Ask for an action; a refusal is thrown as an Error with the server's sentence. */
export async function ask(action, fields = {}) {
  mark(1);
  try {
    const answer = await fetch(`api/${action}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) });
    const found = await answer.json().catch(() => ({ error: "The server's response cannot be read." }));
    if (!answer.ok) throw new Error(found.error);
    return found;
  } catch (error) {
    if (error instanceof TypeError) throw new Error("The server does not respond. Is the command still running?");
    throw error;
  } finally {
    mark(-1);
  }
}

/** Tell the page's element whether something is still to come: data-idle="true" when nothing is. */
function mark(change) {
  busy += change;
  document.body.dataset.idle = String(busy === 0 && waiting.size === 0);
}

/** Run something after a while; called again before that, it starts anew. The page is not idle until then. */
export function later(milliseconds, action) {
  let timer = null;
  const key = {};
  return (...given) => {
    clearTimeout(timer);
    waiting.add(key); mark(0);
    timer = setTimeout(() => { waiting.delete(key); action(...given); mark(0); }, milliseconds);
  };
}

/** Return a function that keeps one question under way, and of those that come meanwhile the last. */
export function latest(work) {
  let running = false, next = null;
  return async function run(...given) {
    if (running) { next = given; return; }
    running = true;
    try { await work(...given); } finally {
      running = false;
      if (next) { const again = next; next = null; run(...again); }
    }
  };
}

/** Return the numbers of a packed array. */
export function unpack(text, kind = Float32Array) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new kind(bytes.buffer);
}
