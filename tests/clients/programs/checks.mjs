// Runs named checks against the server at process.argv[2]; prints one JSON line for each.
export const url = process.argv[2];

// A client that is closed may reject requests that nobody waits for.
process.on("unhandledRejection", (error) => console.error(error));

const LIMIT = 120_000;

export async function run(checks) {
  const only = process.argv[3];
  for (const [check, body] of Object.entries(checks)) {
    if (only && only !== check) continue;
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("no end within two minutes")), LIMIT);
    });
    const line = { check };
    const begin = Date.now();
    try {
      line.value = (await Promise.race([body(), late])) ?? null;
    } catch (error) {
      line.error = String(error?.message ?? error);
      console.error(check, error);
    }
    clearTimeout(timer);
    if (process.env.TIMES) console.error(`${((Date.now() - begin) / 1000).toFixed(1)} s: ${check}`);
    await new Promise((resolve) => process.stdout.write(`${JSON.stringify(line)}\n`, resolve));
  }
  process.exit(0); // clients keep their connections for a while
}

// The status and the text of a refusal.
export async function refused(promise) {
  try {
    const value = await promise;
    return { taken: value ?? null };
  } catch (error) {
    return { status: error.status ?? null, text: String(error.message) };
  }
}

export async function all(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

export async function until(condition, text) {
  const end = Date.now() + LIMIT / 2;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within a minute: ${text ?? condition}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}
